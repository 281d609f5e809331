"""Candidates on a sample, each judged by the votes on held-out rows."""

import time
import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from nearkin.learning.execution import Execution
from nearkin.learning.presets import (
    CHANGES,
    INDEX_CHANGES,
    INDEX_START,
    RANKING,
    START,
    WIDE_CHANGES,
    WIDE_START,
    Preset,
)
from nearkin.native.blas import serial_blas
from nearkin.native.threads import each_alone, n_threads
from nearkin.neighborhoods import Neighborhoods
from nearkin.preprocessing.transformers import width_of
from nearkin.selection.candidates import (
    CSLS,
    LONG_SHORTLISTS,
    MOST_FEATURES,
    SHORTLISTS,
    Starts,
)
from nearkin.selection.draws import MAX_SPLITS, draw_splits
from nearkin.selection.options import Selection
from nearkin.selection.scoring import SCORES
from nearkin.selection.splits import Array, Labels, Prepared, Split
from nearkin.selection.stages import FINAL_EPOCHS
from nearkin.selection.trial import Candidate
from nearkin.slne import SLNE
from nearkin.validation import memory
from nearkin.voting.choice import (
    Ballot,
    candidates,
    choose,
    class_temperature,
    join,
)
from nearkin.voting.novelty import threshold
from nearkin.voting.refinement import refinable
from nearkin.voting.votes import Vote

UNSETTLED = 1.5  # with so many times the rows of a sample
EPOCHS, PATIENCE = 2, 1  # averaged iterates make smooth curves
HOPELESS = 0.4  # behind the best by a third of its log loss and error: not tried on more rows
TOLD_APART = 0.95  # columns a row that leave learned rows nothing to confuse
CLEARLY = 2.0  # standard errors of the difference in log loss, row by row
NEIGHBORS = 100
MOST_COPIED = 1 << 29  # bytes of all rows, to judge plain neighbours among them
COPIES = 6  # of them, at the most, in other types, prepared, and in an index
KEPT_BYTES = 192 << 20  # of prepared rows that are kept beside those in use
# What makes a vote one of its neighbours alone, to which the rest is chosen again.
_NEIGHBORS_ALONE: dict[str, Any] = {"hyperplane_weight": 0.0, "class_weight": 0.0, "smoothing": 0.0}


Epoch = tuple[Ballot, Array | None]  # what votes after an epoch, and M where it is kept
Option = tuple[Any, Preset]  # a preprocessing and a learner


class Task(NamedTuple):
    """A learner on one split."""

    prepared: Prepared
    graph: Neighborhoods
    learner: Preset


@dataclass
class Search:
    """Candidates on one sample of the rows."""

    rows: Any
    labels: Labels
    groups: NDArray[np.integer] | None
    options: Selection
    seed: int
    held_out: int
    wide: bool  # more columns than rows to learn from, of all rows
    n_rows: int  # of which this is a sample
    row_numbers: NDArray[np.int64]  # among all rows
    given: bool  # whether the preprocessing is the user's, and stays as it is
    trials: list[dict[str, Any]] = field(default_factory=list)
    ranking: bool = False  # starts only, the best of which are learned from again on more rows

    def __post_init__(self) -> None:
        self.n_classes = int(self.labels.max()) + 1
        masks = draw_splits(self.labels, self.groups, self.seed, self.held_out)
        masks = [held for held in masks if len(np.unique(self.labels[~held])) > 1]
        if not masks:
            raise ValueError(
                "groups: without those that are held out, the rows are of one class; more groups, "
                "or groups of several classes, are needed"
            )
        if min(self.rows.shape) > 4_000:  # principal directions of wide rows take long
            masks = masks[:2]
        wanted = self.n_classes, self.options.for_index
        self.splits = [Split(self.rows, self.labels, held, *wanted) for held in masks]
        self.held_numbers = self.row_numbers[masks[0]]  # of the first split
        self._prepared: dict[str, list[Prepared]] = {}

    @property
    def start(self) -> Preset:
        """The learner that starts are compared with."""
        if self.wide:
            return WIDE_START
        if self.options.for_index:
            return INDEX_START
        return START | RANKING if self.ranking else START

    @property
    def changes(self) -> list[list[Preset]]:
        """What is changed of it, a group at a time."""
        if self.wide:
            return WIDE_CHANGES
        return INDEX_CHANGES if self.options.for_index else CHANGES

    @cached_property
    def starts(self) -> Starts:
        """Preprocessings to start from."""
        shape = self.kept, self.seed, self.wide
        return Starts(self.rows, *shape, self.options.for_index, self.given)

    @property
    def kept(self) -> int:
        """Rows to learn from."""
        return len(self.splits[0].labels)

    def columns(self, preprocess: Any) -> int:
        """Columns that a start's cost goes by, as far as its parameters tell."""
        return width_of(self.starts.finer(preprocess), self.n_rows, self.rows.shape[1])

    def plain(self, preprocess: Any) -> Candidate:
        """Plain nearest neighbours and class means."""
        began = time.perf_counter()
        ballot = join([prepared.ballot(None) for prepared in self._prepare(preprocess)])
        judged = self._judge(ballot, preprocess, None, 0, _sharp(ballot))
        return self._record(judged, time.perf_counter() - began)

    def learned(
        self, preprocess: Any, learner: Preset, epochs: int = EPOCHS, curve: bool = False
    ) -> Candidate:
        """The learner after so many epochs or, with `curve`, after the best number of them."""
        return self._learned([(preprocess, learner)], epochs, curve)[0]

    def learned_each(self, options: Iterable[Option]) -> list[Candidate]:
        """The learners after a few epochs, some of them side by side.

        One thread each: at most as many splits at a time as few rows are divided into, so that what
        is prepared for them stays small; one after the other, on all threads, where those are more.
        """
        size = 4 * self.kept * max(self.rows.shape[1], MOST_FEATURES) * len(self.splits)
        most = min(n_threads(), MAX_SPLITS // len(self.splits), KEPT_BYTES // size)
        together = most if 2 * most * len(self.splits) >= n_threads() else 1
        waiting, found = iter(options), list[Candidate]()
        while some := list(islice(waiting, max(1, together))):
            found += self._learned(some, EPOCHS)
        return found

    def _learned(
        self, options: Sequence[Option], epochs: int, curve: bool = False
    ) -> list[Candidate]:
        began = time.perf_counter()
        epochs = 1 if self.ranking else epochs
        tasks = [task for option in options for task in self._tasks(*option)]
        with _quiet(), serial_blas():
            after = each_alone(lambda task: self._epochs(task, epochs, curve), tasks)
        n, first = len(self.splits), 1 if curve else epochs
        best = [
            self._best_epoch(option, after[i * n : (i + 1) * n], first)
            for i, option in enumerate(options)
        ]
        seconds = (time.perf_counter() - began) / len(options)
        return [
            self.plain(preprocess) if candidate is None else self._record(candidate, seconds)
            for (preprocess, _), candidate in zip(options, best)
        ]

    def _tasks(self, preprocess: Any, learner: Preset) -> list[Task]:
        """What a learner needs on each split; what learners share is made before they start."""
        prepared = self._prepare(preprocess, max(NEIGHBORS, learner["n_neighbors"]))

        def task(own: Prepared) -> Task:
            if not self.options.for_index:
                own.distances()
            return Task(own, own.graphs.graph(learner["n_neighbors"]), learner)

        with serial_blas():
            return each_alone(task, prepared)

    def _best_epoch(
        self, option: Option, after: Sequence[list[Epoch]], first: int
    ) -> Candidate | None:
        """The best of the epochs that all splits have come to; None where the first diverged."""
        tried = []
        for epoch, found in enumerate(zip(*after), start=first):
            ballots, matrices = zip(*found)
            judged = self._judge(join(ballots), *option, epoch)
            kept = None if any(M is None for M in matrices) else matrices
            tried.append(replace(judged, matrices=kept))
        return max(tried, key=_score, default=None)

    def among_all(self, rows: Any, labels: Labels) -> "Search":
        """The held-out rows of the first split, with all other rows to vote on them."""
        held = np.zeros(len(labels), bool)
        held[self.held_numbers] = True
        whole = copy(self)
        whole.splits, whole._prepared = [Split(rows, labels, held, int(labels.max()) + 1)], {}
        return whole

    def among_more(self, candidate: Candidate, more: "Search") -> Candidate:
        """What a candidate has learned on the first split, with more rows to vote."""
        began = time.perf_counter()
        known = self._prepare(candidate.preprocess)
        matrix = self._matrices(candidate, known)[0]
        with serial_blas():  # not `_prepare`, which knows only what is fitted on those rows
            ballot = more.splits[0].prepare(known[0].preprocess, NEIGHBORS).ballot(matrix)
        learned = candidate.preprocess, candidate.learner, candidate.epochs
        judged = more._judge(ballot, *learned, _sharp(ballot))
        return more._record(judged, time.perf_counter() - began)

    def best(self, tried: Iterable[Candidate]) -> Candidate:
        """The first of the best."""
        return max(tried, key=_score)

    @property
    def needs_all_rows(self) -> bool:
        """Whether all rows are so many more that neighbours among them are others."""
        return not self.options.for_index and self.n_rows >= UNSETTLED * len(self.labels)

    def affords_all(self, preprocess: Any) -> bool:
        """Whether there are many more rows than these, yet not too many to prepare them all."""
        if not self.needs_all_rows:
            return False
        columns = max(self.rows.shape[1], self._prepare(preprocess)[0].rows.shape[1])
        size = 4 * self.n_rows * columns
        if size > MOST_COPIED:
            return False
        copies = {"plain neighbours among all rows": COPIES * size}
        memory.check("SoftVotingKNN", copies, "give a similarity, such as SLNE(), or fewer rows")
        return True

    def contends(self, candidate: Candidate, best: Candidate, behind: float = HOPELESS) -> bool:
        """Whether a candidate, not too far behind, might be the best one on more rows."""
        limit = behind if self.options.scoring == "classification" else np.inf
        return best.score - candidate.score < limit

    def clearly_ahead(self, one: Candidate, other: Candidate) -> bool:
        """Whether a candidate beats another, in log loss by more than the noise of these rows."""
        gains = other.chosen.losses.astype(np.float64) - one.chosen.losses
        noise = gains.std() / np.sqrt(len(gains))
        return one.score > other.score and float(gains.mean()) > CLEARLY * float(noise)

    def finish(self, best: Candidate) -> Candidate:
        """The shortlist and the vote of a candidate, from all kinds of votes."""
        began = time.perf_counter()
        lengths = SHORTLISTS + (LONG_SHORTLISTS if self.wide else ())
        wanted = NEIGHBORS if best.learner is None else max(NEIGHBORS, best.learner["n_neighbors"])
        prepared = self._prepare(best.preprocess, max(wanted, *lengths))
        matrices = self._matrices(best, prepared)
        pairs = list(zip(prepared, matrices))
        whole = join(each_alone(lambda pair: pair[0].ballot(pair[1], csls=True), pairs))
        for k in (k for k in lengths if k <= prepared[0].near.shape[1]):
            part = _shortened(whole, prepared, k)
            kinds = [v for v in candidates(part.scores) if v.kind in ("softmax", "top", "power")]
            among = kinds + [replace(v, csls=w) for v in kinds if v.kind == "softmax" for w in CSLS]
            best = max(best, self._judge(part, best.preprocess, best.learner, best.epochs, among),
                       key=_score)  # fmt: skip
        ballot = _shortened(whole, prepared, best.n_neighbors)
        best = self._refined(best, ballot, prepared, matrices)
        limit = threshold(ballot.novelty())
        best = replace(best, novelty_threshold=limit, matrices=None)
        return self._record(best, time.perf_counter() - began)

    def _refined(
        self, best: Candidate, ballot: Ballot, prepared: list[Prepared], matrices: Sequence[Any]
    ) -> Candidate:
        """The candidate with refined class means, if these are better.

        With about as many columns as rows, M tells all rows that it has learned from apart, and
        leaves nothing to be refined on them. For an index no class mean votes.
        """
        kept, columns = prepared[0].rows.shape
        shape = self.n_rows, columns, self.n_classes
        if columns >= TOLD_APART * kept or self.options.for_index or not refinable(*shape):
            return best
        temperature = class_temperature(ballot)

        def scores(pair: tuple[Prepared, Any]) -> Array:
            return pair[0].refined_scores(pair[1], temperature)

        with serial_blas():
            refined = np.concatenate(each_alone(scores, list(zip(prepared, matrices))))
        among = [replace(best.chosen.vote, **_NEIGHBORS_ALONE)]
        again = self._judge(
            replace(ballot, class_scores=refined), best.preprocess, best.learner, best.epochs, among
        )
        vote = replace(again.chosen.vote, refinement=temperature)
        again = replace(again, chosen=again.chosen._replace(vote=vote))
        return self.best([best, again])

    def _matrices(self, best: Candidate, prepared: list[Prepared]) -> Sequence[Array | None]:
        """M of a candidate on each split."""
        with _quiet(), serial_blas():
            return best.matrices or each_alone(partial(self._matrix, best), prepared)

    def _matrix(self, best: Candidate, prepared: Prepared) -> Array | None:
        """M of a candidate on one split."""
        model = unfitted(best, self.seed)
        if model is None:
            return None
        graph = prepared.graphs.graph(model.n_neighbors)
        model.fit(prepared.rows, prepared.split.labels, neighbors=graph)
        if model.interrupted_:
            raise KeyboardInterrupt
        return model.matrix_

    def _prepare(self, preprocess: Any, k: int = NEIGHBORS) -> list[Prepared]:
        """All splits under a preprocessing, with the `k` nearest rows.

        The last are kept, as long as they are small: the best come up again, with more or fewer
        neighbours than before.
        """
        name = repr(preprocess)
        kept = self._prepared.pop(name, [])
        with serial_blas():
            if not kept:
                self._forget_oldest()
                kept = each_alone(lambda s: s.prepare(preprocess, k), self.splits)
            wanted = each_alone(lambda p: p.of_length(k), kept)
        longer = [max(pair, key=lambda p: p.near.shape[1]) for pair in zip(kept, wanted)]
        self._prepared[name] = longer
        return wanted

    def _forget_oldest(self) -> None:
        """Forget what was prepared first, until little is kept."""
        sizes = {n: sum(p.rows.nbytes for p in kept) for n, kept in self._prepared.items()}
        while sum(sizes.values()) > KEPT_BYTES:
            oldest = next(iter(sizes))
            del sizes[oldest], self._prepared[oldest]

    def _epochs(self, task: Task, epochs: int, curve: bool) -> list[Epoch]:
        """The ballot after the last epoch; for a curve, after each until rows gain no more."""
        prepared = task.prepared
        after: list[Epoch] = []
        losses: list[float] = []

        def evaluate(_: int, model: SLNE) -> bool:
            """Vote after an epoch; whether to stop."""
            ballot = prepared.ballot(model.matrix_)
            after.append((ballot, self._kept_matrix(model)))
            losses.append(self._judge(ballot, None, None, 0).score)
            return len(losses) - int(np.argmax(losses)) > PATIENCE

        model = SLNE(
            **task.learner,
            prepare=None,
            max_epochs=epochs,
            tol=0,
            random_state=self.seed,
            execution=Execution(callback=evaluate if curve else None),
        )
        with suppress(FloatingPointError):
            model.fit(prepared.rows, prepared.split.labels, neighbors=task.graph)
            if model.interrupted_:
                raise KeyboardInterrupt
            if not curve:
                after.append((prepared.ballot(model.matrix_), None))
        return after

    def _kept_matrix(self, model: SLNE) -> Array | None:
        """A copy of M, where those of all splits and epochs are small."""
        most = FINAL_EPOCHS * len(self.splits) * model.matrix_.nbytes
        return model.matrix_.copy() if most <= KEPT_BYTES else None

    def _judge(
        self,
        ballot: Ballot,
        preprocess: Any,
        learner: Preset | None,
        epochs: int,
        among: Sequence[Vote] | None = None,
    ) -> Candidate:
        """The candidate with its best vote."""
        if among is None:
            among = [v for v in candidates(ballot.scores) if v.kind == "softmax"]
        chosen = choose(ballot, among)
        score = SCORES[self.options.scoring](ballot, chosen)
        return Candidate(preprocess, learner, epochs, ballot.scores.shape[1], chosen, score)

    def _record(self, candidate: Candidate, seconds: float) -> Candidate:
        trial = candidate.describe() | {"rows": self.kept, "seconds": seconds}
        self.trials.append(trial)
        if self.options.verbose > 1:
            print("  ".join(f"{name} {value}" for name, value in trial.items()), flush=True)
        return candidate


def unfitted(candidate: Candidate, seed: int) -> SLNE | None:
    """The learner of a candidate."""
    if candidate.learner is None:
        return None
    settings = candidate.learner | {"prepare": None, "max_epochs": candidate.epochs, "tol": 0}
    return SLNE(**settings, random_state=seed)


class _quiet(warnings.catch_warnings):
    """Without warnings that concern a candidate, not the user's model."""

    def __enter__(self) -> Any:
        log = super().__enter__()
        warnings.simplefilter("ignore", ConvergenceWarning)  # nothing to learn
        warnings.filterwarnings("ignore", "interrupted in epoch")  # nothing of it is kept
        return log


def _shortened(ballot: Ballot, prepared: list[Prepared], k: int) -> Ballot:
    """The ballot with the first `k` voters of each held-out row."""
    if ballot.distances is None:
        return ballot.truncated(k)
    distances = each_alone(lambda p: p.of_length(k).distances(), prepared)
    return replace(ballot.truncated(k), distances=np.concatenate(distances))


def _sharp(ballot: Ballot) -> list[Vote]:
    """Votes that plain neighbours and learned similarities are compared by."""
    return [v for v in candidates(ballot.scores) if v.kind in ("softmax", "top")]


def _score(candidate: Candidate) -> float:
    return candidate.score
