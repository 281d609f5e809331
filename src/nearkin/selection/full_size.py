"""A choice that was made on a sample, settled with all rows: shortlist and vote, or plain rows.

Neighbours in a sample are farther away than among all rows: a vote chosen there is too soft, and
plain neighbours, which gain most from more rows, are judged too badly. So a model learns from all
rows but some, and on these its vote is chosen again; plain neighbours, where they contend, may
take its place.
"""

import time
from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nearkin.io.run_folder import RunFolder
from nearkin.neighbors.index import NeighborIndex
from nearkin.neighbors.lists import without_self
from nearkin.selection.candidates import CSLS, SHORTLISTS
from nearkin.selection.report import report
from nearkin.selection.scoring import SCORES
from nearkin.voting.choice import Ballot, ChosenVote, candidates, choose
from nearkin.voting.class_means import class_means
from nearkin.voting.csls import matrix_for_csls, mean_similarity
from nearkin.voting.database import refined, store
from nearkin.voting.novelty import threshold
from nearkin.voting.parts import MAX_PLAIN_COPY, Unsettled
from nearkin.voting.scores import class_scores, local_distances, voter_novelty, voter_scores
from nearkin.voting.shortlist import searched_columns
from nearkin.voting.votes import Vote

Array = NDArray[np.float32]
Lists = NDArray[np.int32]


class Settled(NamedTuple):
    """The best shortlist and vote of a model."""

    score: float
    n_neighbors: int
    chosen: ChosenVote

    def describe(self) -> dict[str, Any]:
        """As plain values, for the table of trials."""
        return {
            "n_neighbors": self.n_neighbors,
            "vote": self.chosen.vote,
            "log_loss": self.chosen.log_loss,
            "accuracy": self.chosen.accuracy,
            "score": self.score,
        }


class Contender:
    """A fitted model, judged on rows whose labels it has not seen."""

    def __init__(
        self, model: Any, unsettled: Unsettled, voters: Lists, hubs: Array | None = None
    ) -> None:
        self.model, self.voters, self.hubs = model, voters, hubs
        self.held, self.scoring = unsettled.held, unsettled.scoring
        self.queries, n_classes = model.database_[self.held], len(model.classes_)
        labels = np.where(self.held, n_classes, model.labels_)
        means = class_means(model.database_, labels, n_classes + 1)[:-1]
        model.class_offsets_ = refined(model, means, np.where(self.held, -1, model.labels_))
        self.class_scores = class_scores(model, self.queries, means)
        model.vote_ = replace(model.vote_, csls=0.0)
        self.scores = voter_scores(model, self.queries, voters)

    def best(self) -> Settled:
        """The best shortlist and vote."""
        asked, most = self.model.n_neighbors, self.voters.shape[1]
        lengths = {*SHORTLISTS, self.model.n_neighbors_} if isinstance(asked, str) else {int(asked)}
        tried = [self._judged(k) for k in sorted({min(k, most) for k in lengths})]
        return max(tried, key=lambda settled: settled.score)

    def _judged(self, k: int) -> Settled:
        """The best vote of the first `k` voters."""
        model, voters = self.model, np.ascontiguousarray(self.voters[:, :k])
        ballot = Ballot(
            self.scores[:, :k],
            model.labels_[voters],
            model.labels_[self.held],
            len(model.classes_),
            None if self.hubs is None else self.hubs[voters],
            self.class_scores,
            distances=local_distances(model, self.queries, voters),
        )
        among = [v for v in candidates(ballot.scores) if v.kind in ("softmax", "top", "power")]
        if self.hubs is not None:
            among += [replace(v, csls=w) for v in among if v.kind == "softmax" for w in CSLS]
        chosen = choose(ballot, among)
        return Settled(SCORES[self.scoring](ballot, chosen), k, chosen)  # type: ignore[index]

    def take(self, settled: Settled) -> None:
        """Leave the shortlist and the vote in the model."""
        model, k, vote = self.model, settled.n_neighbors, settled.chosen.vote
        if vote.class_weight == 0:
            model.class_offsets_ = None
        refinement = 0.0 if model.class_offsets_ is None else model.vote_.refinement
        model.vote_, model.n_neighbors_ = replace(vote, refinement=refinement), k
        voters = np.ascontiguousarray(self.voters[:, :k])
        model.novelty_threshold_ = threshold(voter_novelty(model, self.queries, voters))


def settle(model: Any, unsettled: Unsettled, rows: Any, lists: Lists | None) -> None:
    """Choose the shortlist and the vote of a fitted model, or plain neighbours in its place.

    `lists` are of all rows, where these were searched for.
    """
    known, found = model.trials_[-1], []
    for contender, name in _contenders(model, unsettled, rows, lists):
        began = time.perf_counter()
        settled = contender.best()
        size = {"rows": int((~unsettled.held).sum()), "seconds": time.perf_counter() - began}
        model.trials_.append(known | name | settled.describe() | size)
        found.append((settled, contender, model.trials_[-1]))
    settled, best, trial = max(found, key=lambda tried: tried[0].score)
    best.take(settled)
    model.trials_.sort(key=lambda tried: tried is trial)  # what was chosen is the last
    vars(model).update(vars(best.model))
    model.report_ = report(model.trials_, unsettled.scoring)  # type: ignore[arg-type]


def _contenders(
    model: Any, unsettled: Unsettled, rows: Any, lists: Lists | None
) -> Iterator[tuple[Contender, dict[str, Any]]]:
    """The model, and plain neighbours; with what a table of trials calls them."""
    at, wanted = np.flatnonzero(unsettled.held), model.vote_
    for preprocess in unsettled.plain:
        same = model.similarity_ is None and repr(preprocess) == repr(model.preprocess_)
        if not same and _fits(rows, preprocess):
            plain = _plain(model, rows, preprocess)
            voters = _of_others(_nearest_others(plain, at), unsettled)
            name = {"preprocess": repr(preprocess), "learner": None, "epochs": 0}
            yield Contender(plain, unsettled, voters), name
    hubs = None
    if lists is not None and wanted.csls:
        matrix = matrix_for_csls(model.similarity_, wanted.csls)
        hubs = mean_similarity(model.database_, lists, matrix, model.scale_)
    voters = _nearest_others(model, at) if lists is None else lists[at]
    yield Contender(model, unsettled, _of_others(voters, unsettled), hubs), {}


def _fits(rows: Any, preprocess: Any) -> bool:
    """Whether plain neighbours need no large copy of the rows."""
    as_they_are = preprocess is None and not sparse.issparse(rows) and rows.dtype == np.float32
    return as_they_are or 4 * float(rows.shape[0]) * rows.shape[1] <= MAX_PLAIN_COPY


def _plain(model: Any, rows: Any, preprocess: Any) -> Any:
    """The same model with plain neighbours."""
    plain, labels = copy(model), model.classes_[model.labels_]
    plain.similarity_, plain.vote_ = None, Vote("softmax")
    plain._cached_index = plain.search_index_ = None
    if repr(preprocess) == repr(model.preprocess_):  # fitted without the held-out rows
        preprocess = model.preprocess_
    if preprocess is None and not sparse.issparse(rows):
        rows = np.ascontiguousarray(rows, np.float32)
    store(plain, rows, labels, preprocess, None, RunFolder.nowhere())
    return plain


def _nearest_others(model: Any, at: NDArray[np.int64]) -> Lists:
    """The nearest rows of some of them, themselves left out."""
    rows = searched_columns(model, model.database_)
    k = min(max(SHORTLISTS), len(rows) - 1)
    near = NeighborIndex(rows, "exact").nearest(k + 1, rows[at])[1]
    return np.ascontiguousarray(without_self(near, at), np.int32)


def _of_others(voters: Lists, unsettled: Unsettled) -> Lists:
    """The voters of held-out rows without those of a row's own group; places at the end are -1."""
    if unsettled.groups is None:
        return voters
    own = unsettled.groups[unsettled.held, None]
    out = (unsettled.groups[voters] == own) | (voters < 0)
    order = np.argsort(out, axis=1, kind="stable")
    return np.take_along_axis(np.where(out, np.int32(-1), voters), order, axis=1)
