"""How many rounds to learn from judgements, and with which step: chosen on held-out queries.

Queries that share a relevant document are held out together, so that no document's relevance is
known from training. Doing nothing is a candidate, and preferred within the noise.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from nearkin.learning.pair_search import search
from nearkin.learning.pairs import Judgements
from nearkin.metrics.retrieval import judged_relevance, ndcg_at_k
from nearkin.neighbors.index import NeighborIndex

Array = NDArray[np.float32]

STEPS = (0.3, 0.1, 0.03)
MAX_QUERIES, MAX_DOCUMENTS = 4_000, 50_000
HELD_OUT, MAX_FOLDS = 2_000, 4
STANDARD_ERRORS = 2.0
RANKS = 10


class PairChoice(NamedTuple):
    """The chosen step size and rounds, 0 for none, and nDCG@10 of held-out queries."""

    step_size: float
    rounds: int
    before: float
    after: float


class Rounds(Protocol):
    """What learns from judgements round by round."""

    queries: Array
    database: NeighborIndex

    @property
    def learned(self) -> Array:
        """M so far."""

    def round(self) -> object:
        """Learn one round more."""


Make = Callable[[Array, Array, Judgements, float], Rounds]


def choose_rounds(
    queries: Array,
    documents: Array,
    judged: Judgements,
    make: Make,
    steps: Sequence[float],
    rounds: int,
    seed: int,
) -> PairChoice:
    """The best step and number of rounds; `make` builds the trainer of some queries."""
    queries, documents, judged = sampled(queries, documents, judged, seed)
    folds = list(held_out_queries(judged, len(queries), len(documents), seed))
    before: list[Array] = []
    after: dict[tuple[float, int], list[Array]] = {}
    for held in folds:
        learn, judge = judged.only(~held), judged.only(held)
        for step in steps:
            trainer = make(queries, documents, learn, step)
            if step == steps[0]:
                before.append(_ndcg(trainer, held, judge))
            for done in range(1, rounds + 1):
                trainer.round()
                after.setdefault((step, done), []).append(_ndcg(trainer, held, judge))
    start = np.concatenate(before)
    means = {setting: np.concatenate(parts) for setting, parts in after.items()}
    (step, done), best = max(means.items(), key=lambda item: float(item[1].mean()))
    gain = best - start
    noise = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.inf
    if gain.mean() <= STANDARD_ERRORS * noise:
        return PairChoice(step, 0, float(start.mean()), float(start.mean()))
    return PairChoice(step, done, float(start.mean()), float(best.mean()))


def sampled(
    queries: Array, documents: Array, judged: Judgements, seed: int
) -> tuple[Array, Array, Judgements]:
    """At most so many queries, and their judged documents among at most so many."""
    rng = np.random.default_rng(seed)
    chosen = np.unique(judged.query)
    if len(chosen) > MAX_QUERIES:
        chosen = np.sort(rng.choice(chosen, MAX_QUERIES, replace=False))
    kept = np.isin(judged.query, chosen)
    needed = np.unique(judged.document[kept])
    others = np.setdiff1d(np.arange(len(documents)), needed)
    room = max(0, MAX_DOCUMENTS - len(needed))
    if len(others) > room:
        others = rng.choice(others, room, replace=False)
    there = np.sort(np.concatenate([needed, others]))
    query = np.searchsorted(chosen, judged.query[kept])
    document = np.searchsorted(there, judged.document[kept])
    return queries[chosen], documents[there], Judgements(query, document, judged.grade[kept])


def held_out_queries(
    judged: Judgements, n_queries: int, n_documents: int, seed: int
) -> Iterator[NDArray[np.bool_]]:
    """Masks of held-out queries, whole components of the graph of relevance in each."""
    component = judged.components(n_queries, n_documents)
    if len(np.unique(component)) < 2:
        component = np.arange(n_queries)  # all are connected: single queries
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


def _ndcg(trainer: Rounds, held: NDArray[np.bool_], judged: Judgements) -> Array:
    """Of each held-out query that has a relevant document, over all documents."""
    rows = np.flatnonzero(held)
    found = search(trainer.database, trainer.queries[rows], trainer.learned, RANKS)
    table = np.stack([np.searchsorted(rows, judged.query), judged.document, judged.grade], axis=1)
    relevance = judged_relevance(found, table)
    values = ndcg_at_k(relevance.relevant, relevance.ideal, found.shape[1], per_query=True)
    return values[~np.isnan(values)]
