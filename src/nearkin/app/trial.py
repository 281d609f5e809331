"""Would a learned similarity help? Learned from some queries, measured on others."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.adapter import Adapter
from nearkin.app.store_graph import DotGraph
from nearkin.learning.holdout import held_out, sample
from nearkin.learning.pair_choice import held_out_queries, sampled
from nearkin.learning.pairs import pair_data, ridge
from nearkin.learning.preparation import MAX_WITHIN_CLASS
from nearkin.learning.presets import FOR_INDEX
from nearkin.metrics import paired_bootstrap
from nearkin.native.threads import limited
from nearkin.preprocessing.unit_length import UnitLength
from nearkin.retrieval_task import RetrievalTask, exact_index, means
from nearkin.selection.candidates import INDEX_PREPARATIONS
from nearkin.slne import SLNE

Array = NDArray[np.float32]
Lists = NDArray[np.integer]

MAX_ROWS, TEST_SHARE, MAX_TEST = 50_000, 0.25, 2_000
HELD_OUT = 0.2
EFS = (40, 100)  # the default of pgvector, and a usual one
RERANKED, WHOLE = "re-ranked top 100", "whole index, exact"
_BLOCK = 64  # queries whose hundred vectors are in memory at a time


@dataclass
class Method:
    """A way to answer queries: each measure of every test query, and what it costs."""

    name: str
    values: dict[str, NDArray[np.float64]]
    ms: float  # a query, on one thread, a batch at a time
    found: float | None = None  # share of the ten most similar that a graph finds
    gains: dict[str, dict[str, float]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Means, gains over the first method with their intervals, cost."""
        return {"name": self.name} | means(self.values) | {
            "gains": self.gains, "ms_per_query": self.ms, "found": self.found,
        }  # fmt: skip


@dataclass
class Trial:
    """What was learned, from how much, and how each method does on test queries."""

    kind: str  # "labels" or "pairs"
    adapter: Adapter
    learned: bool  # False: held-out queries chose to leave everything as it is
    seconds: float  # of learning
    facts: dict[str, int]
    methods: list[Method]

    @property
    def measure(self) -> str:
        """What decides."""
        return "precision@10" if self.kind == "labels" else "nDCG@10"

    def __getitem__(self, name: str) -> Method:
        return next(method for method in self.methods if method.name == name)


def try_labels(X: ArrayLike, y: ArrayLike, seed: int = 0) -> Trial:
    """Learn from labelled rows, which are the index, too; the test queries are others."""
    labels = np.unique(np.asarray(y), return_inverse=True)[1]
    rng = np.random.default_rng(seed)
    some = sample(labels, MAX_ROWS, rng)
    rows, labels = UnitLength().fit_transform(np.asarray(X)[some]), labels[some]
    held = held_out(labels, min(TEST_SHARE, MAX_TEST / len(labels)), rng)
    if not held.any():
        raise ValueError(f"{len(labels)} rows of {labels.max() + 1} classes leave none to test on; "
                         "four rows of a class are needed")  # fmt: skip
    task = RetrievalTask(rows[~held], rows[held], labels=labels[~held], truth=labels[held])
    began = time.perf_counter()
    model = learn_for_index(task.documents, task.labels, seed)  # type: ignore[arg-type]
    seconds = time.perf_counter() - began
    facts = {"learned_from": len(task.documents), "classes": int(labels.max()) + 1}
    return _trial("labels", task, task.asked, model.adapter(metric="cosine"), True, seconds, facts)


def learn_for_index(rows: Array, labels: NDArray[Any], seed: int) -> SLNE:
    """Learn for retrieval from the whole index, after the preparation that suits it best.

    That one is chosen by precision@10 of held-out rows: none is best everywhere. Candidates are
    those of ``Selection(for_index=True)``, which goes on to choose the learner, on samples.
    """
    rng = np.random.default_rng(seed)
    labels = np.unique(labels, return_inverse=True)[1]
    held = held_out(labels, HELD_OUT, rng)
    best = "auto"
    if held.any() and rows.shape[1] < min((~held).sum(), MAX_WITHIN_CLASS):
        task = RetrievalTask(rows[~held], rows[held], labels=labels[~held], truth=labels[held])
        index = exact_index(task.documents)

        def precision(prepare: Any) -> float:
            model = _learned(prepare, task.documents, labels[~held], seed)
            asked = model.transform_query(task.asked)
            return means(task.measures(task.search(index, asked)))["precision@10"]

        best = max(INDEX_PREPARATIONS, key=precision)
    return _learned(best, rows, labels, seed)


def _learned(prepare: Any, rows: Array, labels: NDArray[Any], seed: int) -> SLNE:
    settings = FOR_INDEX | {"n_neighbors": min(FOR_INDEX["n_neighbors"], len(rows) - 1)}
    return SLNE(**settings, prepare=prepare, random_state=seed).fit(rows, labels)


def try_pairs(queries: ArrayLike, documents: ArrayLike, relevant: Any, seed: int = 0) -> Trial:
    """Learn from some queries and judgements; test queries share no relevant document with them."""
    asked, stored = (UnitLength().fit_transform(rows) for rows in (queries, documents))
    data = sampled(pair_data(asked, stored, relevant), seed)
    asked, stored = data.queries, data.documents
    held = next(held_out_queries(data, seed), None)
    if held is None:
        raise ValueError(f"{len(asked)} judged queries leave none to test on; give more")
    learn, test = data.only(~held), data.judged.only(held)
    began = time.perf_counter()
    table = np.stack([learn.judged.query, learn.judged.document, learn.judged.grade], axis=1)
    model = SLNE(random_state=seed).fit_pairs(asked, stored, table)
    seconds = time.perf_counter() - began
    row = np.cumsum(held) - 1
    grades = np.stack([row[test.query], test.document, test.grade], axis=1)
    task = RetrievalTask(stored, asked[held], grades)
    raw, chosen = task.asked, model.pair_choice_
    comparable = raw.shape[1] == stored.shape[1]
    if not comparable:
        raw = raw @ ridge(learn)
    facts = {"learned_from": int((~held).sum())}
    learned = chosen["rounds"] > 0 or (comparable and chosen["ridge"])
    return _trial("pairs", task, raw, model.adapter(metric="cosine"), learned, seconds, facts)


def _trial(
    kind: str, task: RetrievalTask, raw: Array, adapter: Adapter, learned: bool, seconds: float,
    facts: dict[str, int],
) -> Trial:  # fmt: skip
    methods = measured(task, raw, adapter)
    before, after = (means(methods[i].values) for i in (0, 2))
    adapter.card |= {"queries": len(task.asked), "before": before, "after": after}
    facts = {"documents": len(task.documents), "test_queries": len(task.asked)} | facts
    return Trial(kind, adapter, learned, seconds, facts, methods)


def measured(task: RetrievalTask, raw: Array, adapter: Adapter) -> list[Method]:
    """All methods on the test queries; `raw` is what the first compares, without the adapter.

    Documents have unit length, and the adapter is for an index by cosine.
    """
    index, asked = exact_index(task.documents), adapter.transform(task.asked)
    plain = "raw cosine" if raw is task.asked else "ridge regression"
    whole, best = _method(task, WHOLE, partial(task.search, index, asked))
    methods = [
        _method(task, plain, partial(task.search, index, raw))[0],
        _method(task, RERANKED, partial(_reranked, adapter, task, index, raw))[0],
        whole,
    ]
    graph = DotGraph(task.documents)
    for ef in EFS:
        k = min(task.length, ef)
        method, near = _method(task, graph_name(ef), partial(graph.search, asked, k, ef))
        both = best[:, :10, None] == near[:, None, :10]
        method.found = float(both.any(axis=2).mean())
        if k < task.length:
            del method.values["recall@100"]
        methods.append(method)
    for method in methods[1:]:
        method.gains = {
            name: paired_bootstrap(methods[0].values[name], values)
            for name, values in method.values.items()
        }
    return methods


def graph_name(ef: int) -> str:
    """What a search of the graph is called."""
    return f"whole index, HNSW ef {ef}"


def _method(task: RetrievalTask, name: str, search: Callable[[], Lists]) -> tuple[Method, Lists]:
    """A method, and what it found."""
    began = time.perf_counter()
    with limited(1):
        ranked = search()
    ms = 1e3 * (time.perf_counter() - began) / len(ranked)
    return Method(name, task.measures(ranked), ms), ranked


def _reranked(adapter: Adapter, task: RetrievalTask, index: Any, raw: Array) -> Lists:
    """The documents that are found for raw queries, ordered by the learned similarity."""
    near = task.search(index, raw)
    made = np.empty_like(near)
    for lo in range(0, len(near), _BLOCK):
        part = near[lo : lo + _BLOCK]
        order = adapter.rerank(task.asked[lo : lo + _BLOCK], task.documents[part])[1]
        made[lo : lo + _BLOCK] = np.take_along_axis(part, order, axis=1)
    return made
