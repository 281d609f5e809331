"""Select every setting on held-out training rows, then fit on all of them.

The search is greedy, one group of settings after the other: first the preprocessing, which
determines the neighbours, then the learner, then the shortlist and the vote. A candidate learns
on some of the rows and is scored by its votes on the others after every epoch, which selects the
number of epochs, too. Candidates with the same preprocessing share its neighbour lists.
"""

import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state, check_X_y
from sklearn.utils.multiclass import check_classification_targets

from nearkin.classifier import SoftVotingKNN
from nearkin.io.progress_bar import track
from nearkin.learning.execution import Execution
from nearkin.learning.holdout import MAX_HELD_OUT, held_out, sample
from nearkin.learning.presets import TUNE_CHANGES, TUNE_START
from nearkin.native.pairs import pair_scores
from nearkin.neighbors.search import NeighborIndex
from nearkin.preprocessing import Preprocess
from nearkin.preprocessing.fourier import FourierFeatures
from nearkin.slne import SLNE
from nearkin.validation import expect
from nearkin.validation.arrays import classes_of, refuse_no_numbers
from nearkin.validation.parameters import checked
from nearkin.voting import votes
from nearkin.voting.csls import mean_similarity
from nearkin.voting.votes import Vote

Array = NDArray[np.float32]
Labels = NDArray[np.int64]
Settings = dict[str, Any]

HELD_OUT = 0.2
# Few rows are split repeatedly until this many were held out. Learners need more of them: they
# differ by less than preprocessings, and their trials need no neighbour search.
PREPROCESSING_HELD_OUT, LEARNER_HELD_OUT = 3_000, 8_000
MAX_SPLITS = 5
LEARNER_FACTOR = 3
PATIENCE = 3  # epochs without a better accuracy
EPOCHS, FINAL_EPOCHS = 8, 30  # at most, of a candidate and of the best one
MAX_NEIGHBORS = 100
CSLS_WEIGHTS = (0.0, 0.25, 0.5)
QUICK_SHORTLIST, SHORTLISTS = 50, (10, 20, 50, MAX_NEIGHBORS)
QUICK_VOTES = ("softmax",)
PLAIN_VOTERS = (1, 3, 5, 7, 9, 15)

WHITENING = (0.0, 0.25, 0.5, 1.0)
COMPONENTS = (50, 200)
START_COMPONENTS = 100
BANDWIDTHS = (0.7, 1.0, 1.5)
# Random features approximate a Gaussian kernel well only in few dimensions: measured, letter (16)
# 3.9 → 2.1 % error, USPS (60) no better.
MAX_FOURIER_DIMS = 64


@checked(max_rows=expect.whole(6), random_state=expect.seed, verbose=expect.verbosity)
def tune(
    X: ArrayLike,
    y: ArrayLike,
    *,
    max_rows: int = 20_000,
    random_state: int | np.random.RandomState | None = None,
    verbose: int = 0,
) -> SoftVotingKNN:
    """Return a fitted classifier whose settings were all selected on held-out rows of `X`.

    Plain nearest neighbours are among the candidates, so that learning is used only where it
    helps. Ctrl-C ends the search; the message of the `KeyboardInterrupt` has the best settings
    that were found. In the last fit, on all rows, it ends the fit as for `SLNE`.

    Parameters
    ----------
    X : (n, D) array-like or sparse matrix
    y : (n,) array-like
        Labels; some class needs three rows, of which one can be held out.
    max_rows : int
        Rows drawn to select the preprocessing, if there are more; three times as many are drawn to
        select the learner and the vote.
    random_state : int, RandomState instance or None
    verbose : int
        1 shows a bar, 2 prints a line for each candidate.

    Returns
    -------
    SoftVotingKNN
        Fitted on all rows. Its attribute ``trials_`` lists the candidates: settings, accuracy
        on the held-out rows, epochs and seconds.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> model = tune(X[::2], y[::2], random_state=0)
    >>> bool(model.score(X[1::2], y[1::2]) > 0.9)
    True
    """
    rows, labels = _checked(X, y)
    seed = int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
    few = _sample(labels, max_rows, np.random.default_rng(seed))
    search = _Search(rows[few], labels[few], seed, verbose, PREPROCESSING_HELD_OUT)
    try:
        start = search.preprocessing()
        more = _sample(labels, LEARNER_FACTOR * max_rows, np.random.default_rng(seed))
        search = _Search(rows[more], labels[more], seed, verbose, LEARNER_HELD_OUT, search.trials)
        best = search.learner(*start)
    except KeyboardInterrupt:  # a fit of the best candidate could take long: report it instead
        raise KeyboardInterrupt(_summary(search.trials)) from None
    model = best.model(seed).fit(X, y)
    model.trials_ = search.trials
    return model


def _checked(X: ArrayLike, y: ArrayLike) -> tuple[Any, Labels]:
    refuse_no_numbers(X, "X")
    rows, y = check_X_y(
        X, y, accept_sparse="csr", dtype=[np.float32, np.float64, np.float16], ensure_min_samples=3
    )
    check_classification_targets(y)
    labels = classes_of(y)[1]
    counts = np.bincount(labels)
    if counts.max() < 3:
        raise ValueError(
            f"the largest class of y has {counts.max()} rows; tuning holds rows out and needs a "
            "class with three or more"
        )
    return rows, labels


def _sample(labels: Labels, most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """At most `most` row numbers, in order, with two classes and three rows of one."""
    n = len(labels)
    if n <= most:
        return np.arange(n)
    chosen = sample(labels, most, rng)
    counts = np.bincount(labels[chosen])
    if np.count_nonzero(counts) > 1 and counts.max() >= 3:
        return chosen
    # One class dominates, or all are small: take whole classes, none for more than half.
    order = np.lexsort((rng.random(n), rng.permutation(labels.max() + 1)[labels]))
    first = np.flatnonzero(np.diff(labels[order], prepend=-1))
    place = np.arange(n) - np.repeat(first, np.diff(first, append=n))
    return np.sort(order[place < most // 2][:most])


@dataclass(frozen=True)
class _Candidate:
    """Settings and their accuracy on the held-out rows."""

    preprocess: Any
    learner: Settings | None  # None is plain nearest neighbours
    accuracy: float
    epochs: int
    n_neighbors: int
    vote: Vote
    csls: float = 0.0

    def model(self, seed: int) -> SoftVotingKNN:
        """The classifier with these settings, not fitted."""
        similarity = None
        if self.learner is not None:
            similarity = SLNE(**self.learner, max_epochs=self.epochs, tol=0, random_state=seed)
        return SoftVotingKNN(
            similarity,
            preprocess=clone(self.preprocess),
            n_neighbors=self.n_neighbors,
            vote=self.vote,
            csls=self.csls,
            random_state=seed,
        )


class _Split:
    """Preprocessed rows, some held out, with their neighbours among the others."""

    def __init__(self, rows: Array, labels: Labels, held: NDArray[np.bool_], k: int) -> None:
        self.rows, self.labels, self.truth = np.ascontiguousarray(rows), labels, labels[held]
        self.lists, self.near = _training_lists(self.rows, held, k)
        self.queries = self.rows[held]

    def plain(self) -> "_Scores":
        """Scores by rank alone."""
        ranks = np.arange(self.near.shape[1], dtype=np.float32)
        return _Scores(np.tile(-ranks, (len(self.near), 1)), np.zeros(len(self.rows), np.float32))

    def scored(self, matrix: Array) -> "_Scores":
        """Similarities of the held-out rows to their neighbours."""
        scores = pair_scores(self.queries @ matrix, self.rows, self.near)
        return _Scores(scores, mean_similarity(self.rows, self.lists, matrix))


def _training_lists(
    rows: Array, held: NDArray[np.bool_], k: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The `k` nearest rows that are not held out: lists to learn from, and those of held-out rows.

    Lists are in the numbers of all rows; a held-out row has none to learn from.
    """
    kept = np.flatnonzero(~held).astype(np.int32)
    index = NeighborIndex(np.ascontiguousarray(rows[kept]))
    lists = np.full((len(rows), k), -1, np.int32)
    lists[kept] = _renumbered(index.nearest(k)[1], kept)
    return lists, _renumbered(index.nearest(k, np.ascontiguousarray(rows[held]))[1], kept)


def _renumbered(lists: NDArray[np.int32], kept: NDArray[np.int32]) -> NDArray[np.int32]:
    return np.where(lists >= 0, kept[lists], np.int32(-1))


class _Scores(NamedTuple):
    raw: Array  # of held-out rows and their neighbours
    mean_similarity: Array  # of the stored rows to their neighbours (CSLS)


@dataclass
class _Search:
    """A search on some rows; `trials` records the candidates."""

    rows: Any
    labels: Labels
    seed: int
    verbose: int
    held_out_rows: int  # over all splits
    trials: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.n_classes = int(self.labels.max()) + 1
        n = min(MAX_HELD_OUT, HELD_OUT * len(self.labels))
        count = int(np.clip(np.ceil(self.held_out_rows / n), 1, MAX_SPLITS))
        generators = [np.random.default_rng([self.seed, i]) for i in range(count)]
        self.held = [held_out(self.labels, HELD_OUT, rng) for rng in generators]
        self._ready: dict[str, list[_Split]] = {}

    def preprocessing(self) -> tuple[_Candidate, _Candidate]:
        """The best preprocessing for plain neighbours, and the best for a learner."""
        plain = self._plain(Preprocess(whitening=0, unit_length=False))
        best: _Candidate | None = None
        for options in self._preprocessings():
            current = None if best is None else best.preprocess
            for preprocess in self._track(options(current), "preprocessing"):
                plain = max(plain, self._plain(preprocess), key=_accuracy)
                best = _better(best, self._learned(preprocess, TUNE_START, EPOCHS))
        assert best is not None
        return plain, best

    def learner(self, plain: _Candidate, start: _Candidate) -> _Candidate:
        """The best settings with these preprocessings."""
        plain = self._plain(plain.preprocess)
        best = self._learned(start.preprocess, TUNE_START, EPOCHS)
        for changes in TUNE_CHANGES:
            tried = [best.learner | change for change in changes]  # type: ignore[operator]
            for learner in self._track(tried, "learner"):
                best = _better(best, self._learned(best.preprocess, learner, EPOCHS))
        longer = self._learned(best.preprocess, best.learner, FINAL_EPOCHS, SHORTLISTS)  # type: ignore[arg-type]
        return max(plain, longer, key=_accuracy)

    def _preprocessings(self) -> list[Callable[[Any], list[Any]]]:
        """Groups of preprocessings, each derived from the best of the groups before."""
        most = min(self.rows.shape)
        start = min(START_COMPONENTS, most)

        def whitened(_: None) -> list[Any]:
            return [Preprocess(start, whitening=w) for w in WHITENING]

        def reduced(best: Preprocess) -> list[Any]:
            counts = [n for n in COMPONENTS if n < 0.8 * most]
            return [clone(best).set_params(n_components=n) for n in counts]

        def fourier(best: Preprocess) -> list[Any]:
            if best.n_components > MAX_FOURIER_DIMS:  # type: ignore[operator]
                return []
            before = clone(best).set_params(unit_length=False)
            n = min(400, max(50, self.rows.shape[0] // 4))  # more would only cost time
            settings = {"n_features": n, "random_state": self.seed}
            return [FourierFeatures(before, bandwidth=b, **settings) for b in BANDWIDTHS]

        return [whitened, reduced, fourier]

    def _track(self, items: list[Any], stage: str) -> Iterable[Any]:
        return track(items, stage, show=self.verbose == 1)

    def _splits(self, preprocess: Any) -> list[_Split]:
        """Rows under `preprocess` in every split; the last two preprocessings are kept."""
        name = repr(preprocess)
        if name not in self._ready:
            rows = clone(preprocess).fit(self.rows).transform(self.rows)
            while len(self._ready) > 1:
                del self._ready[next(iter(self._ready))]
            k = min(MAX_NEIGHBORS, *(int((~held).sum()) - 1 for held in self.held))
            self._ready[name] = [_Split(rows, self.labels, held, k) for held in self.held]
        return self._ready[name]

    def _plain(self, preprocess: Any) -> _Candidate:
        """Plain nearest neighbours with the best number of voters."""
        began = time.perf_counter()
        splits = self._splits(preprocess)
        scores = [split.plain() for split in splits]
        best = None
        for k in PLAIN_VOTERS:
            if k <= splits[0].near.shape[1]:
                vote, accuracy = self._vote(splits, scores, k, 0.0, [Vote("top", float(k))])
                best = _better(best, _Candidate(preprocess, None, accuracy, 0, k, vote))
        return self._record(best, began)  # type: ignore[arg-type]

    def _learned(
        self, preprocess: Any, learner: Settings, epochs: int, shortlists: Sequence[int] = ()
    ) -> _Candidate:
        """The learner with its best number of epochs and vote."""
        began = time.perf_counter()
        splits = self._splits(preprocess)
        after = list(zip(*(_epoch_scores(split, learner, epochs, self) for split in splits)))
        best = _Candidate(preprocess, learner, 0.0, 1, QUICK_SHORTLIST, Vote("top"))
        for epoch, scores in enumerate(after, start=1):
            for csls in CSLS_WEIGHTS:
                vote, accuracy = self._vote(splits, scores, QUICK_SHORTLIST, csls)
                new = replace(best, accuracy=accuracy, epochs=epoch, vote=vote, csls=csls)
                best = _better(best, new)
        for n in shortlists if after else ():  # none if the first epoch diverged
            for csls in CSLS_WEIGHTS:
                vote, accuracy = self._vote(splits, after[best.epochs - 1], n, csls, thorough=True)
                new = replace(best, accuracy=accuracy, n_neighbors=n, vote=vote, csls=csls)
                best = _better(best, new)
        return self._record(best, began)

    def _vote(
        self,
        splits: list[_Split],
        scores: Sequence[_Scores],
        n: int,
        csls: float,
        among: list[Vote] | None = None,
        thorough: bool = False,
    ) -> tuple[Vote, float]:
        """The best vote of the `n` nearest on the held-out rows of all splits."""
        near = [split.near[:, :n] for split in splits]
        seen = np.concatenate([
            part.raw[:, :n] - np.float32(csls) * part.mean_similarity[indices]
            for part, indices in zip(scores, near)
        ])  # fmt: skip
        labels = np.concatenate([split.labels[indices] for split, indices in zip(splits, near)])
        truth = np.concatenate([split.truth for split in splits])
        if among is None:
            among = [v for v in votes.candidates(seen) if thorough or v.kind in QUICK_VOTES]
        return votes.choose(seen, labels, truth, self.n_classes, among)

    def _record(self, choice: _Candidate, began: float) -> _Candidate:
        trial = {
            "preprocess": _text(choice.preprocess),
            "learner": "plain" if choice.learner is None else dict(choice.learner),
            "n_neighbors": choice.n_neighbors,
            "vote": choice.vote.kind,
            "sharpness": choice.vote.sharpness,
            "csls": choice.csls,
            "epochs": choice.epochs,
            "rows": len(self.labels),
            "accuracy": choice.accuracy,
            "seconds": time.perf_counter() - began,
        }
        self.trials.append(trial)
        if self.verbose > 1:
            print(_line(trial), flush=True)
        return choice


def _epoch_scores(split: _Split, learner: Settings, epochs: int, search: _Search) -> list[_Scores]:
    """Scores of the held-out rows after each epoch, until they stop improving."""
    after: list[_Scores] = []
    accuracies: list[float] = []

    def evaluate(_: int, model: SLNE) -> bool:
        """Score an epoch; whether to stop."""
        after.append(split.scored(model.matrix_))
        tried = [search._vote([split], after[-1:], QUICK_SHORTLIST, w)[1] for w in CSLS_WEIGHTS]
        accuracies.append(max(tried))
        return len(after) - int(np.argmax(accuracies)) > PATIENCE

    k = min(learner["n_neighbors"], split.lists.shape[1])
    model = SLNE(
        **learner,
        max_epochs=epochs,
        tol=0,
        random_state=search.seed,
        execution=Execution(callback=evaluate),
    )
    with suppress(FloatingPointError), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # nothing to learn
        warnings.filterwarnings("ignore", "interrupted in epoch")  # nothing of it is kept
        model.fit(split.rows, split.labels, neighbors=split.lists[:, :k])
        if model.interrupted_:
            raise KeyboardInterrupt
    return after


def _accuracy(choice: _Candidate) -> float:
    return choice.accuracy


def _better(best: _Candidate | None, new: _Candidate) -> _Candidate:
    """The new one if it is strictly better; among equals the first, which is simpler."""
    return new if best is None or new.accuracy > best.accuracy else best


def _summary(trials: list[dict[str, Any]]) -> str:
    """The best candidate of an interrupted search."""
    if not trials:
        return "tune was interrupted before it had tried anything"
    best = max(trials, key=lambda trial: trial["accuracy"])
    return f"tune was interrupted after {len(trials)} candidates; the best was {_line(best)}"


def _line(trial: dict[str, Any]) -> str:
    return "  ".join(f"{name} {value}" for name, value in trial.items())


def _text(preprocess: Any) -> str:
    return " ".join(repr(preprocess).split())
