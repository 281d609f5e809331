import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import oracle
from nearkin.neighborhoods import neighborhoods


@st.composite
def lists_and_labels(draw):
    n, k = draw(st.integers(2, 25)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    return rng.integers(-1, n, (n, k)), rng.integers(0, draw(st.integers(1, 4)), n)


@given(lists_and_labels())
@settings(deadline=None)
def test_symmetrised_and_split_as_the_paper_says(case):
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


def test_a_graph_is_as_good_as_lists():
    lists, labels = np.array([[1, 2], [0, 2], [3, 0], [1, 0]]), np.array([0, 1, 0, 1])
    indptr, indices = np.arange(5) * 2, lists.ravel()
    zeros = sparse.csr_array((np.zeros(8), indices, indptr), shape=(4, 4))  # all distances zero
    one, other = neighborhoods(lists, labels), neighborhoods(zeros, labels)
    np.testing.assert_array_equal(one.indices, other.indices)
    np.testing.assert_array_equal(one.indptr, other.indptr)


def test_the_given_graph_is_left_as_it_was():
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
    ],
)
def test_bad_lists(lists, message):
    with pytest.raises(ValueError, match=message):
        neighborhoods(lists, np.array([0, 1, 0]))
