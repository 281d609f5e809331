from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import oracle
from nearkin import SLDE, SLNE
from nearkin.neighborhoods import check_lists, neighborhoods


@st.composite
def lists_and_labels(draw):
    n, k = draw(st.integers(2, 25)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    return rng.integers(-1, n, (n, k)), rng.integers(0, draw(st.integers(1, 4)), n)


@given(lists_and_labels())
@settings(deadline=None)
def test_symmetrised_and_split_as_in_the_paper(case):
    lists, labels = case
    graph = neighborhoods(lists, labels)
    expected = oracle.split(oracle.symmetrised(lists), labels)
    for i, (targets, impostors) in enumerate(expected):
        assert graph.targets(i).tolist() == targets
        assert graph.impostors(i).tolist() == impostors
        assert graph.usable[i] == bool(targets and impostors)
    for i in range(len(lists)):
        for j in [*graph.targets(i), *graph.impostors(i)]:
            assert i in [*graph.targets(j), *graph.impostors(j)]


def test_a_csr_graph_gives_the_same_result_as_lists():
    lists, labels = np.array([[1, 2], [0, 2], [3, 0], [1, 0]]), np.array([0, 1, 0, 1])
    indptr, indices = np.arange(5) * 2, lists.ravel()
    zeros = sparse.csr_array((np.zeros(8), indices, indptr), shape=(4, 4))  # all distances zero
    one, other = neighborhoods(lists, labels), neighborhoods(zeros, labels)
    np.testing.assert_array_equal(one.indices, other.indices)
    np.testing.assert_array_equal(one.indptr, other.indptr)


def test_the_given_graph_is_not_modified():
    graph = sparse.csr_array((np.ones(2), np.array([2, 1]), np.array([0, 2, 2, 2])), shape=(3, 3))
    neighborhoods(graph, np.array([0, 1, 0]))
    assert graph.indices.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ([[1]], r"shape \(1, 1\).*n=3"),
        ([[1], [2], [3]], "indices from 1 to 3"),
        ([[1], [2], [-2]], "indices from -2"),
        ([[0.5], [1], [2]], "must be integers"),
        ([1, 2, 0], "shape"),
        (sparse.csr_array((2, 3)), r"\(3, 3\) is expected"),
        ([[1, 2], [0], [1]], "lists of different lengths; .* n=3.*pad short lists with -1"),
        (neighborhoods([[1], [0]], np.array([0, 1])), "neighbourhoods of 2 rows; X has 3"),
    ],
)
def test_invalid_lists_are_refused(lists, message):
    with pytest.raises(ValueError, match=message):
        neighborhoods(lists, np.array([0, 1, 0]))


def changed_graph(part, place, value):
    """A graph of ten rows, modified after scipy has validated it."""
    lists = np.array([[(i + 1) % 10, (i + 2) % 10] for i in range(10)], np.int32)
    ends = np.arange(0, 22, 2, dtype=np.int32)
    graph = sparse.csr_array((np.ones(20), lists.ravel(), ends), shape=(10, 10))
    getattr(graph, part)[place] = value
    return graph


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("indices", 7, 10), "indices from 0 to 10; with 10 rows they must lie between 0 and 9"),
        (("indices", 7, 2**30), "indices from 0 to 1073741824"),
        (("indices", 7, -1), "indices from -1 to 9.*a graph omits"),
        (("indptr", 3, 2**20), "not a valid CSR graph .*indptr must not decrease"),
        (("indptr", 10, 24), "not a valid CSR graph"),
        (("indptr", 0, -4), "not a valid CSR graph"),
    ],
)
def test_graphs_with_invalid_indices_are_refused(change, message):
    X, y = np.random.default_rng(0).normal(size=(10, 4)), np.arange(10) % 2
    fitted = SLNE.paper(n_neighbors=2, max_epochs=1).fit(X, y)
    for use in (
        lambda graph: neighborhoods(graph, y),
        lambda graph: fitted.objective(X, y, neighbors=graph),
        lambda graph: SLNE.paper().fit(X, y, neighbors=graph),
        lambda graph: SLDE(n_members=2).fit(X, y, neighbors=graph),
    ):
        with pytest.raises(ValueError, match=message):
            use(changed_graph(*change))


def test_a_graph_is_not_copied():
    graph = changed_graph("indices", 0, 1)
    assert np.shares_memory(check_lists(graph, 10)[1], graph.indices)


@given(lists_and_labels(), st.integers(0, 10_000))
@settings(deadline=None)
def test_held_out_rows_are_in_no_neighborhood(case, seed):
    lists, labels = case
    held = np.random.default_rng(seed).random(len(lists)) < 0.3
    graph = neighborhoods(lists, labels, held=held)
    known = np.where(held[:, None] | (held[lists] & (lists >= 0)), -1, lists)
    expected = oracle.split(oracle.symmetrised(known), labels)
    assert [
        (graph.targets(i).tolist(), graph.impostors(i).tolist()) for i in range(len(lists))
    ] == [(list(targets), list(impostors)) for targets, impostors in expected]


def hubs_truncated(lists, hub_limit, held):
    """Neighbours of each row and the number of hubs, where a hub keeps its best-ranked edges."""
    n = len(lists)
    pairs = [
        (rank, i, int(j))
        for i in range(n)
        for rank, j in enumerate(lists[i])
        if j not in (-1, i) and not held[i] and not held[j]
    ]
    limit = max(1, int(hub_limit * (len(pairs) / n)))
    reverse = [[i for _, i, j in sorted(pairs) if j == row] for row in range(n)]
    own = [{j for _, i, j in pairs if i == row} for row in range(n)]
    near = [sorted(own[row] | set(reverse[row][:limit])) for row in range(n)]
    return near, sum(len(edges) > limit for edges in reverse)


@given(lists_and_labels(), st.sampled_from([1, 1.5, 2, 1e30]), st.integers(0, 10_000))
@settings(deadline=None)
def test_hubs_are_truncated_as_in_the_naive_form(case, hub_limit, seed):
    lists, labels = case
    held = np.random.default_rng(seed).random(len(lists)) < 0.2
    lists = np.where(lists > 3, lists % 7 % len(lists), lists)  # some rows get a high in-degree
    graph = neighborhoods(lists, labels, held=held, hub_limit=hub_limit)
    near, n_hubs = hubs_truncated(lists, hub_limit, held)
    assert graph.n_hubs == n_hubs
    for i in range(len(lists)):
        assert sorted([*graph.targets(i), *graph.impostors(i)]) == near[i]


def test_reverse_edges_of_equal_rank_are_kept_in_row_order():
    n = 50
    lists = np.array([[0, (i + 1) % n] for i in range(n)])
    graph = neighborhoods(lists, np.zeros(n, int), hub_limit=10)
    assert graph.n_hubs == 1
    assert graph.targets(0).tolist() == list(range(1, 20))  # 10 times 97 / 50, of 49


def test_a_hub_keeps_the_reverse_edges_of_highest_rank():
    n, k = 30, 4
    lists = np.array([[(i + d) % n for d in range(1, k + 1)] for i in range(n)])
    ranks = {i: (i * 7) % k for i in range(2, 26)}  # these lists hold row 0
    for i, rank in ranks.items():
        lists[i, rank] = 0
    graph = neighborhoods(lists, np.zeros(n, int), hub_limit=3)
    assert graph.n_hubs == 1
    others = set(graph.targets(0)) - set(lists[0])
    worst = max(int(np.flatnonzero(lists[i] == 0)[0]) for i in others)
    left_out = {i for i in range(n) if 0 in lists[i]} - others - set(lists[0])
    assert len(others) <= 3 * k
    assert left_out
    assert all(np.flatnonzero(lists[i] == 0)[0] >= worst for i in left_out)
    assert all(0 in graph.targets(i) for i in left_out)  # their own lists stay whole
    whole = neighborhoods(lists, np.zeros(n, int))
    np.testing.assert_array_equal(whole.targets(5), graph.targets(5))


def test_lists_on_disk_are_not_copied(tmp_path):
    lists = np.random.default_rng(0).integers(0, 50, (50, 4), dtype=np.int32)
    np.save(tmp_path / "lists.npy", lists)
    mapped = np.load(tmp_path / "lists.npy", mmap_mode="r")
    labels = np.arange(50) % 3
    assert np.shares_memory(check_lists(mapped, 50)[1], mapped)
    one, other = neighborhoods(mapped, labels), neighborhoods(lists, labels)
    np.testing.assert_array_equal(one.indices, other.indices)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"indices": np.full(4, 10**6, np.int32)}, "indices from 1000000 to 1000000"),
        ({"indices": np.array([-1, 0, 1, 0], np.int32)}, "indices from -1"),
        ({"indices": np.ones(4, np.int64)}, "neighbors.indices is ndarray .*int32 array"),
        ({"indices": np.ma.masked_array(np.full(4, 10**6, np.int32), True)}, "masked array"),
        ({"indptr": np.array([0, 10**9, 3, 4])}, "neighbors.indptr must rise from 0 to 4"),
        ({"indptr": np.array([0, 2, 4])}, "neighbors.indptr must rise from 0 to 4"),
        ({"indptr": np.array([0, 2, 3, 10**9])}, "neighbors.indptr must rise from 0 to 4"),
        ({"n_targets": np.full(3, 10**6, np.int32)}, "neighbors.n_targets must lie between"),
        ({"n_targets": np.full(3, -1, np.int32)}, "neighbors.n_targets must lie between"),
        ({"n_targets": np.zeros(2, np.int32)}, "neighbourhoods of 2 rows; X has 3"),
        ({"cells": np.full(3, -1, np.int32)}, "neighbors.cells must hold"),
        ({"cells": np.zeros(10**6, np.int32)}, "neighbors.cells must hold"),
    ],
)
def test_hand_made_neighbourhoods(change, message):
    labels = np.array([0, 0, 1])
    hoods = replace(neighborhoods([[1], [2], [1]], labels), **change)
    with pytest.raises(ValueError, match=message):
        neighborhoods(hoods, labels)
    with pytest.raises(ValueError, match=message):
        SLNE.paper().fit(np.eye(3), labels, neighbors=hoods)


def test_held_rows_are_as_many_as_rows():
    with pytest.raises(ValueError, match=r"held has shape \(2,\)"):
        neighborhoods([[1], [2], [1]], np.array([0, 0, 1]), held=np.zeros(2, bool))


@pytest.mark.parametrize("labels", [None, iter([1]), np.zeros((3, 2), int), [0.5, 0.5, 1.5], "abc"])
def test_labels_are_integers(labels):
    with pytest.raises((TypeError, ValueError), match=r"labels must be an array of one integer"):
        neighborhoods([[1], [2], [1]], labels)


@pytest.mark.parametrize("hub_limit", ["", 1j, 0.5, np.array([1, 2])])
def test_hub_limits_are_numbers(hub_limit):
    with pytest.raises(ValueError, match=r"hub_limit=.* must be a number >= 1 or None"):
        neighborhoods([[1], [2], [1]], [0, 0, 1], hub_limit=hub_limit)
