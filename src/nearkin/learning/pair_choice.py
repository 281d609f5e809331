"""How many rounds to learn from judgements, and with which step: chosen on held-out queries.

Queries that share a relevant document are held out together, so that no document's relevance is
known from training; where most queries are connected so, single ones are. Doing nothing is a
candidate, and preferred within the noise.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from nearkin.learning.pair_search import search
from nearkin.learning.pairs import Integers, Judgements, PairData, identity, ridge
from nearkin.metrics.retrieval import judged_relevance, ndcg_at_k
from nearkin.native.listed_scores import pair_scores
from nearkin.neighbors.index import NeighborIndex
from nearkin.neighbors.lists import without_self

Array = NDArray[np.float32]

STEPS = (0.3, 0.1, 0.03)
MAX_QUERIES, MAX_DOCUMENTS = 4_000, 50_000
HELD_OUT, MAX_FOLDS = 2_000, 4
STANDARD_ERRORS = 2.0
RANKS = 10


class PairChoice(NamedTuple):
    """The chosen step size and rounds, 0 for none, and nDCG@10 of held-out queries.

    `ridge` says that M starts as a ridge regression, not as the identity.
    """

    step_size: float
    rounds: int
    before: float
    after: float
    ridge: bool = False


class Rounds(Protocol):
    """What learns from judgements round by round."""

    @property
    def learned(self) -> Array:
        """M so far."""

    def round(self) -> object:
        """Learn one round more."""


class HeldOutQueries:
    """A sample of the queries and documents, one index of it, and folds of held-out queries."""

    def __init__(self, data: PairData, index: str, seed: int) -> None:
        self.data = sampled(data, seed)
        self.database = NeighborIndex(self.data.documents, index, metric="dot")
        self.masks = list(held_out_queries(self.data, seed))
        if not self.masks:
            raise ValueError(
                f"relevant judges {len(self.data.queries)} query; at least two are needed, so that "
                "one can be held out"
            )

    def folds(self) -> Iterator[tuple[PairData, Callable[[Array], Array]]]:
        """What to learn from, and what says how good a matrix is: nDCG@10 of each query."""
        for held in self.masks:
            yield self.data.only(~held), partial(self._ndcg, held)

    def _ndcg(self, held: NDArray[np.bool_], matrix: Array) -> Array:
        """Of each held-out query that has a relevant document."""
        rows, judged = np.flatnonzero(held), self.data.judged.only(held)
        query = np.searchsorted(rows, judged.query)
        if self.data.closed:
            found = self._ranked_judged(rows, query, judged.document, matrix)
        else:
            found = self._searched(rows, matrix)
        table = np.stack([query, judged.document, judged.grade], axis=1)
        relevance = judged_relevance(found, table)
        values = ndcg_at_k(relevance.relevant, relevance.ideal, found.shape[1], per_query=True)
        return values[~np.isnan(values)]

    def _searched(self, rows: Integers, matrix: Array) -> NDArray[np.integer]:
        """The most similar of all documents, but not the query itself."""
        queries, own = self.data.queries[rows], self.data.own
        if own is None:
            return search(self.database, queries, matrix, RANKS)
        return without_self(search(self.database, queries, matrix, RANKS + 1), own[rows])

    def _ranked_judged(
        self, rows: Integers, query: Integers, document: Integers, matrix: Array
    ) -> NDArray[np.integer]:
        """The most similar of the judged documents, a condensed list (Sakai 2007)."""
        count = np.bincount(query, minlength=len(rows))
        lists = np.full((len(rows), count.max()), -1, np.int32)
        lists[query, np.arange(len(query)) - (np.cumsum(count) - count)[query]] = document
        asked = self.data.queries[rows] @ matrix
        order = np.argsort(-pair_scores(asked, self.data.documents, lists), axis=1, kind="stable")
        return np.take_along_axis(lists, order, axis=1)[:, :RANKS]


Make = Callable[[PairData, Array, float], Rounds]


def choose(
    held: HeldOutQueries, make: Make, steps: Sequence[float], rounds: int, start: bool = True
) -> PairChoice:
    """The best step and number of rounds; `make` builds the trainer of some queries, from a start.

    M starts as the identity; as the ridge regression where the widths differ, or, if `start`, where
    that alone is better than all that was learned from the identity: queries and documents are not
    of one model, then, and mean nothing to each other as they are.
    """
    before = None
    if held.data.queries.shape[1] == held.data.documents.shape[1]:
        plain, best = _from(identity, held, make, steps, rounds)
        if not start:
            return plain
        mapped = np.concatenate([ndcg(ridge(learn)) for learn, ndcg in held.folds()])
        if not gains(best, mapped):
            return plain
        before = plain.before
    choice, _ = _from(ridge, held, make, steps, rounds)
    return choice._replace(ridge=True, before=choice.before if before is None else before)


def _from(
    start: Callable[[PairData], Array],
    held: HeldOutQueries,
    make: Make,
    steps: Sequence[float],
    rounds: int,
) -> tuple[PairChoice, Array]:
    """The choice from one start, and nDCG@10 of the held-out queries under it."""
    before: list[Array] = []
    after: dict[tuple[float, int], list[Array]] = {}
    for learn, ndcg in held.folds():
        first = start(learn)
        before.append(ndcg(first))
        for step in steps:
            trainer = make(learn, first, step)
            for done in range(1, rounds + 1):
                trainer.round()
                after.setdefault((step, done), []).append(ndcg(trainer.learned))
    plain = np.concatenate(before)
    means = {setting: np.concatenate(parts) for setting, parts in after.items()}
    (step, done), best = max(means.items(), key=lambda item: float(item[1].mean()))
    if not gains(plain, best):
        best, done = plain, 0
    return PairChoice(step, done, float(plain.mean()), float(best.mean())), best


def gains(before: Array, after: Array) -> bool:
    """Whether queries gain more than the noise."""
    gain = after - before
    noise = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.inf
    return bool(gain.mean() > STANDARD_ERRORS * noise)


def sampled(data: PairData, seed: int) -> PairData:
    """At most so many queries, and their judged documents among at most so many."""
    rng, judged = np.random.default_rng(seed), data.judged
    chosen = np.unique(judged.query)
    if len(chosen) > MAX_QUERIES:
        chosen = np.sort(rng.choice(chosen, MAX_QUERIES, replace=False))
    kept = np.isin(judged.query, chosen)
    themselves = chosen[:0] if data.own is None else data.own[chosen]
    needed = np.union1d(judged.document[kept], themselves)
    others = np.setdiff1d(np.arange(len(data.documents)), needed)
    room = max(0, MAX_DOCUMENTS - len(needed))
    if len(others) > room:
        others = rng.choice(others, room, replace=False)
    there = np.sort(np.concatenate([needed, others]))
    query = np.searchsorted(chosen, judged.query[kept])
    document = np.searchsorted(there, judged.document[kept])
    own = None if data.own is None else np.searchsorted(there, themselves)
    graded = Judgements(query, document, judged.grade[kept])
    return PairData(data.queries[chosen], data.documents[there], graded, own)


def held_out_queries(data: PairData, seed: int) -> Iterator[NDArray[np.bool_]]:
    """Masks of held-out queries, whole components of the graph of relevance in each.

    Where one component has most of the queries, single queries are held out.
    """
    component, n_queries = data.components(), len(data.queries)
    if np.bincount(component).max() > n_queries / 2:
        component = np.arange(n_queries)
    rng = np.random.default_rng(seed)
    rank = rng.permutation(int(component.max()) + 1)[component]
    order = np.argsort(rank, kind="stable")
    fold = np.empty(n_queries, np.int64)
    fold[order] = np.arange(n_queries) * MAX_FOLDS // n_queries
    for label in np.unique(component):  # a component stays in the fold of its first query
        fold[component == label] = fold[component == label].min()
    wanted = int(np.clip(np.ceil(HELD_OUT * MAX_FOLDS / n_queries), 1, MAX_FOLDS))
    for number in range(wanted):
        mask = fold == number
        if mask.any() and not mask.all():
            yield mask
