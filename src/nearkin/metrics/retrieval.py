"""Measures of retrieval: of ranked lists of rows, by labels or by graded judgements."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.metrics.inputs import as_array, as_flags, judgement_columns, matching
from nearkin.validation import expect
from nearkin.validation.parameters import checked

Floats = NDArray[np.float64]


class Relevance(NamedTuple):
    """What was found in ranked lists, and what could have been."""

    relevant: NDArray[Any]  # (m, k): grades of the rows in the lists, best ranked first
    ideal: NDArray[Any]  # (m, k): the best grades there are, in descending order
    totals: NDArray[np.int64]  # (m,): relevant rows in the database


def judged_relevance(ranked: ArrayLike, judgements: ArrayLike) -> Relevance:
    """Grades of ranked rows by judgements (qrels).

    Parameters
    ----------
    ranked : (m, k) array
        Rows of the database, best first, for each of m queries; -1 for none.
    judgements : (r, 2) or (r, 3) array
        Row of the query, row of the database, and grade, by default 1; rows that are not judged,
        and grades below zero, count as 0.

    Examples
    --------
    >>> found = judged_relevance([[7, 5, 3]], [[0, 5, 2], [0, 3, 1], [0, 4, 1]])
    >>> found.relevant.tolist(), found.ideal.tolist(), found.totals.tolist()
    ([[0.0, 2.0, 1.0]], [[2.0, 1.0, 1.0]], [3])
    >>> round(ndcg_at_k(found.relevant, found.ideal, 3), 3)
    0.563
    """
    lists = _ranked(ranked)
    query, row, grade = _judgements(judgements, len(lists))
    order = np.lexsort((row, query))
    keys, grades = (query << 32 | row)[order], grade[order]
    again = np.flatnonzero(keys[1:] == keys[:-1])
    if len(again):
        q, r = int(keys[again[0]] >> 32), int(keys[again[0]] & 0xFFFFFFFF)
        raise ValueError(f"judgements grades row {r} for query {q} twice; keep one of them")
    wanted = np.arange(len(lists))[:, None] << 32 | lists
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    relevant = np.where((keys[place] == wanted) & (lists >= 0), grades[place], 0.0)
    return Relevance(relevant, *_ideal(query, grade, lists.shape))


def label_relevance(ranked: ArrayLike, stored: ArrayLike, truth: ArrayLike) -> Relevance:
    """Whether ranked rows have the label of the query.

    Parameters
    ----------
    ranked : (m, k) array
        Rows of the database, best first, for each of m queries; -1 for none.
    stored : (n,) array of the labels of the database
    truth : (m,) array of the labels of the queries

    Examples
    --------
    >>> found = label_relevance([[2, 1]], ["a", "b", "a", "a"], ["a"])
    >>> found.relevant.tolist(), found.totals.tolist()
    ([[True, False]], [3])
    """
    lists, own = matching("ranked", _ranked(ranked), "truth", truth)
    own, labels = _classes("truth", own), _classes("stored", as_array("stored", stored))
    if labels.ndim != 1 or len(labels) == 0 or lists.max() >= len(labels):
        raise ValueError(
            f"stored has shape {labels.shape} and ranked names row {lists.max()}; one label for "
            "each row of the database is expected"
        )
    if (labels.dtype.kind in "US") != (own.dtype.kind in "US"):
        raise ValueError(f"stored holds {labels.dtype} and truth {own.dtype}; labels of one type, "
                         "all numbers or all text, are expected")  # fmt: skip
    code = np.unique(np.concatenate([labels, own]), return_inverse=True)[1]
    codes, wanted = code[: len(labels)], code[len(labels) :]
    totals = np.bincount(codes, minlength=code.max() + 1)[wanted]
    relevant = (codes[lists] == wanted[:, None]) & (lists >= 0)
    return Relevance(relevant, np.arange(lists.shape[1]) < totals[:, None], totals)


def _classes(name: str, labels: NDArray[Any]) -> NDArray[Any]:
    if labels.dtype.kind == "O" and len({type(label) for label in labels.flat}) == 1:
        labels = np.array(labels.tolist())  # as data frames hold them
    counted = labels.dtype.kind != "f" or (np.isfinite(labels) & (labels % 1 == 0)).all()
    if labels.dtype.kind not in "biufUS" or not counted:
        raise ValueError(f"{name} holds {labels.dtype} that are no classes; whole numbers or text "
                         "are expected")  # fmt: skip
    return labels


def _ranked(ranked: ArrayLike) -> NDArray[np.int64]:
    lists = as_array("ranked", ranked)
    if lists.ndim != 2 or 0 in lists.shape or lists.dtype.kind not in "iu":
        raise ValueError(
            f"ranked has shape {lists.shape} and type {lists.dtype}; row numbers of shape "
            "(queries, k) are expected"
        )
    if lists.min() < -1 or lists.max() > expect.LARGEST_WHOLE:
        raise ValueError(f"ranked holds {lists.min()} to {lists.max()}; row numbers, or -1 for "
                         "none, are expected")  # fmt: skip
    lists = lists.astype(np.int64)
    in_order = np.sort(lists, axis=1)
    again = (in_order[:, 1:] == in_order[:, :-1]) & (in_order[:, 1:] >= 0)
    if again.any():
        query, place = np.argwhere(again)[0]
        row = in_order[query, place]
        raise ValueError(f"ranked names row {row} twice for query {query}; give each row once")
    return lists


def _judgements(
    judgements: ArrayLike, n_queries: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    """Query rows, database rows and grades, none of which is below zero."""
    query, row, grade = judgement_columns("judgements", judgements)
    if len(query) == 0:
        raise ValueError("judgements is empty; at least one is needed")
    if min(query.min(), row.min()) < 0 or max(query.max(), row.max()) > expect.LARGEST_WHOLE:
        raise ValueError("judgements names rows that are no whole numbers from 0 on; give row "
                         "numbers")  # fmt: skip
    if query.max() >= n_queries:
        raise ValueError(f"judgements names query {query.max()}, and ranked has {n_queries} "
                         "lists; give a list for each query")  # fmt: skip
    return query, row, np.maximum(grade, 0)


def _ideal(
    query: NDArray[np.int64], grade: Floats, shape: tuple[int, int]
) -> tuple[Floats, NDArray[np.int64]]:
    """The best grades of each query, in descending order, and how many are above zero."""
    order = np.lexsort((-grade, query))
    sorted_query = query[order]
    rank = np.arange(len(order)) - np.searchsorted(sorted_query, sorted_query)
    within = rank < shape[1]
    ideal = np.zeros(shape)
    ideal[sorted_query[within], rank[within]] = grade[order][within]
    return ideal, np.bincount(query[grade > 0], minlength=shape[0])


def precision_recall_curve(relevant: ArrayLike, totals: ArrayLike) -> tuple[Floats, Floats]:
    """Precision and recall at ranks 1, 2, … of retrieved lists, averaged over queries.

    Parameters
    ----------
    relevant : (m, k) bool array
        Whether each retrieved row is relevant to the query, best ranked first.
    totals : (m,) array
        Relevant rows in the database per query; queries without any are left out.

    Examples
    --------
    >>> precision, recall = precision_recall_curve([[True, False, True]], [4])
    >>> np.round(precision, 2).tolist(), recall.tolist()
    ([1.0, 0.5, 0.67], [0.25, 0.25, 0.5])
    """
    hits, size = _with_relevant_rows(relevant, totals)
    found = np.cumsum(hits, axis=1)
    ranks = np.arange(1, hits.shape[1] + 1)
    return (found / ranks).mean(axis=0), (found / size[:, None]).mean(axis=0)


def mean_average_precision(relevant: ArrayLike, totals: ArrayLike) -> float:
    """Mean over queries of the average precision of their ranked lists.

    For lists of length k, the sum of precisions is divided by the smaller of k and the number of
    relevant rows, so that a perfect list reaches one.

    Examples
    --------
    >>> mean_average_precision([[True, True, False]], [2])
    1.0
    """
    hits, size = _with_relevant_rows(relevant, totals)
    ranks = np.arange(1, hits.shape[1] + 1)
    precision = np.cumsum(hits, axis=1) / ranks
    attainable = np.minimum(size, hits.shape[1])
    return float(((precision * hits).sum(axis=1) / attainable).mean())


@checked(k=expect.whole(1), per_query=expect.flag)
def precision_at_k(relevant: ArrayLike, k: int, per_query: bool = False) -> Any:
    """Share of relevant rows among the first `k` of the lists: the mean, or for each query.

    Examples
    --------
    >>> precision_at_k([[True, False, True]], 2)
    0.5
    """
    return _result(_first(_hits(relevant), k).mean(axis=1), per_query)


@checked(k=expect.whole(1), per_query=expect.flag)
def recall_at_k(relevant: ArrayLike, totals: ArrayLike, k: int, per_query: bool = False) -> Any:
    """Share of all relevant rows that are among the first `k`: the mean, or for each query.

    A query without relevant rows has NaN, and is left out of the mean.

    Examples
    --------
    >>> recall_at_k([[True, False, True]], [4], 3)
    0.5
    """
    hits, size = matching("relevant", relevant, "totals", totals)
    found = _first(_hits(hits), k).sum(axis=1)
    _check_totals(size)
    if (size < found).any():
        raise ValueError("totals is below the number of relevant rows in a list; give that of the "
                         "whole database")  # fmt: skip
    return _result(found / np.where(size > 0, size, np.nan), per_query)


@checked(k=expect.whole(1), per_query=expect.flag)
def reciprocal_rank(relevant: ArrayLike, k: int, per_query: bool = False) -> Any:
    """One over the rank of the first relevant row, 0 if none is among the first `k`; MRR: the mean.

    Examples
    --------
    >>> reciprocal_rank([[False, True], [True, False]], 2)
    0.75
    """
    hits = _first(_hits(relevant), k)
    return _result(hits.any(axis=1) / (1.0 + hits.argmax(axis=1)), per_query)


@checked(k=expect.whole(1), per_query=expect.flag)
def ndcg_at_k(relevant: ArrayLike, ideal: ArrayLike, k: int, per_query: bool = False) -> Any:
    """Normalised discounted cumulative gain of the first `k`: the mean, or for each query.

    ``Σ_r grade_r / log2(r + 1)`` over ranks r, divided by that of the ideal list. A query without
    relevant rows has NaN, and is left out of the mean.

    Parameters
    ----------
    relevant, ideal : (m, k or more) arrays of grades
        As `judged_relevance` and `label_relevance` give them.

    Examples
    --------
    >>> round(ndcg_at_k([[0, 1]], [[1, 0]], 2), 3)  # 1 / log2(3)
    0.631
    """
    gains, best = _gains("relevant", relevant, k), _gains("ideal", ideal, k)
    if gains.shape != best.shape:
        raise ValueError(f"relevant has {len(gains)} lists and ideal {len(best)}; one of each per "
                         "query is expected")  # fmt: skip
    discounts = 1 / np.log2(np.arange(2, k + 2))
    found, most = gains @ discounts, best @ discounts
    return _result(found / np.where(most > 0, most, np.nan), per_query)


def _hits(relevant: ArrayLike) -> NDArray[np.bool_]:
    return as_flags("relevant", as_array("relevant", relevant))


def _first(lists: NDArray[Any], k: int, name: str = "relevant") -> NDArray[Any]:
    if lists.ndim != 2 or 0 in lists.shape or k > lists.shape[1]:
        raise ValueError(
            f"{name} has shape {lists.shape} and k={k}; (queries, k or more) is expected: lower k "
            "or retrieve longer lists"
        )
    return lists[:, :k]


def _gains(name: str, grades: ArrayLike, k: int) -> Floats:
    gains = _first(as_array(name, grades), k, name)
    if gains.dtype.kind not in "fiub" or (gains < 0).any():
        raise ValueError(f"{name} holds {gains.dtype} or numbers below 0; grades are expected")
    return gains.astype(float)


def _result(values: Floats, per_query: bool) -> Any:
    if per_query:
        return values
    if np.isnan(values).all():
        raise ValueError("totals is zero everywhere; at least one query with relevant rows is "
                         "needed")  # fmt: skip
    return float(np.nanmean(values))


def _check_totals(size: NDArray[Any]) -> None:
    if size.dtype.kind not in "fiub":
        raise ValueError(f"totals holds {size.dtype}; numbers of relevant rows are expected")


def _with_relevant_rows(
    relevant: ArrayLike, totals: ArrayLike
) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Drop queries that have no relevant rows in the database."""
    hits, size = matching("relevant", relevant, "totals", totals)
    if hits.ndim != 2:
        raise ValueError(f"relevant has shape {hits.shape}; (queries, k) is expected")
    _check_totals(size)
    some = size > 0
    if not some.any():
        raise ValueError("totals is zero everywhere; at least one query with relevant rows is "
                         "needed")  # fmt: skip
    return as_flags("relevant", hits)[some], size[some]
