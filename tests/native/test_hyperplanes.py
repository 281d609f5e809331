"""Distances to local hyperplanes against numpy's solve."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearkin.native.hyperplanes import MOST_ROWS, RIDGE, hyperplane_distances
from nearkin.native.threads import limited


def naive(Q, Z, indices, labels, n_classes):
    """The weights by a solve, the distance by the point that they make."""
    out = np.full((len(Q), n_classes), np.inf)
    for i, (q, near) in enumerate(zip(Q.astype(float), indices)):
        near = near[near >= 0]
        near = near[np.argsort(((Z[near].astype(float) - q) ** 2).sum(axis=1), kind="stable")]
        for c in np.unique(labels[near]):
            rows = Z[near[labels[near] == c][:MOST_ROWS]].astype(float) - q
            G = rows @ rows.T
            w = np.linalg.lstsq(G + RIDGE * G.diagonal().mean() * np.eye(len(G)),
                                np.ones(len(G)), rcond=None)[0]  # fmt: skip
            w = w / w.sum() if w.any() else np.full(len(G), 1 / len(G))
            out[i, c] = ((w @ rows) ** 2).sum()
    return out


@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(1, 40), st.integers(1, 4))
def test_against_numpy(seed, dims, width, n_classes):
    rng = np.random.default_rng(seed)
    Q, Z = rng.normal(size=(5, dims)).astype("f4"), rng.normal(size=(60, dims)).astype("f4")
    labels = rng.integers(0, n_classes, 60).astype(np.int32)
    indices = np.stack([rng.permutation(60)[:width] for _ in Q]).astype(np.int32)
    indices[rng.random(indices.shape) < 0.1] = -1
    found = hyperplane_distances(Q, Z, indices, labels, n_classes)
    np.testing.assert_allclose(found, naive(Q, Z, indices, labels, n_classes), rtol=1e-3, atol=1e-5)


def test_rows_that_are_the_query_and_classes_without_rows():
    Z = np.ones((3, 2), np.float32)
    found = hyperplane_distances(Z[:1], Z, np.array([[0, 1, 2]], np.int32), np.zeros(3, int), 2)
    np.testing.assert_array_equal(found, [[0, np.inf]])


def test_rows_too_far_for_float32_have_no_hyperplane():
    Z = np.array([[1e19, 0], [1e19, 1], [0, 1]], np.float32)
    near = np.array([[0, 1, 2]], np.int32)
    found = hyperplane_distances(-Z[:1], Z, near, np.array([0, 0, 1]), 2)
    assert np.isinf(found[0, 0])
    assert not np.isnan(found).any()


def test_between_two_rows_is_closer_than_either():
    Z = np.array([[-1, 0.1], [1, 0.1], [0, 0.5]], np.float32)
    near = np.array([[0, 1, 2]], np.int32)
    found = hyperplane_distances(np.zeros((1, 2), "f4"), Z, near, np.array([0, 0, 1]), 2)[0]
    assert found[0] < 0.02 < found[1]


def test_the_same_on_any_number_of_threads():
    rng = np.random.default_rng(0)
    Q, Z = rng.normal(size=(200, 20)).astype("f4"), rng.normal(size=(300, 20)).astype("f4")
    labels, indices = rng.integers(0, 5, 300), rng.integers(0, 300, (200, 30)).astype(np.int32)
    found = hyperplane_distances(Q, Z, indices, labels, 5)
    with limited(1):
        np.testing.assert_array_equal(hyperplane_distances(Q, Z, indices, labels, 5), found)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"indices": [[3]]}, "indices holds"), ({"indices": [[0], [0]]}, "have shapes"),
     ({"labels": [0, 0, 2]}, "labels holds"), ({"labels": [0, 0]}, "have shapes")],
)  # fmt: skip
def test_what_compiled_code_must_not_see(change, message):
    given = {"indices": [[0]], "labels": [0, 0, 1]} | change
    indices, labels = np.array(given["indices"], np.int32), np.array(given["labels"])
    with pytest.raises(ValueError, match=message):
        hyperplane_distances(np.ones((1, 2), "f4"), np.ones((3, 2), "f4"), indices, labels, 2)
