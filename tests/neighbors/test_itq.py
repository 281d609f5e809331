import numpy as np
import pytest

from nearkin.learning.factorization import factors
from nearkin.neighbors import NeighborIndex, nearest
from nearkin.neighbors.itq import IterativeQuantization, learn_directions, rotate

rng = np.random.default_rng


def rows(n=600, D=16):
    r = rng(0)
    centres = r.normal(size=(12, D))
    return (centres[r.integers(12, size=n)] + 0.3 * r.normal(size=(n, D))).astype(np.float32)


def test_every_round_brings_rows_closer_to_their_codes():
    V = (rows() - rows().mean(axis=0)).astype(float)
    R = np.linalg.qr(rng(1).normal(size=(16, 16)))[0]
    errors = []
    for _ in range(10):
        turned = V @ R
        errors.append(((np.where(turned > 0, 1, -1) - turned) ** 2).sum())
        R = rotate(V, R, 1)
        np.testing.assert_allclose(R @ R.T, np.eye(16), atol=1e-9)
    assert (np.diff(errors) <= 1e-6 * errors[0]).all()
    assert errors[-1] < 0.98 * errors[0]


@pytest.mark.parametrize("bits", [8, 16, 40])
def test_directions_are_orthonormal_a_rotation_at_a_time(bits):
    made = learn_directions(rows() - rows().mean(axis=0), bits)
    assert made.shape == (bits, 16)
    for lo in range(0, bits, 16):
        part = made[lo : lo + 16]
        np.testing.assert_allclose(part @ part.T, np.eye(len(part)), atol=1e-5)


@pytest.mark.parametrize("metric", ["euclidean", "dot"])
def test_candidates_are_those_with_the_fewest_different_bits(metric):
    X, Q = rows(), rows()[:20] + np.float32(0.1)
    index = IterativeQuantization(X, "itq;bits=24,candidates=3", metric=metric)
    found = index.search(Q, 5)
    assert found.shape == (20, 15)
    centre = X.mean(axis=0, dtype=float).astype(np.float32)
    bits = (X - centre) @ index.directions.T > 0
    asked = (Q if metric == "dot" else Q - centre) @ index.directions.T > 0
    distances = (asked[:, None] != bits[None]).sum(axis=2)
    expected = np.sort(distances, axis=1)[:, :15]
    np.testing.assert_array_equal(np.sort(np.take_along_axis(distances, found, 1)), expected)


def recall(found, exact):
    return np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(found.tolist(), exact.tolist())])


def test_codes_of_the_factors_follow_the_learned_similarity():
    """Codes of rows as they are know nothing of M."""
    X, Q = rows(1_500, 32), rows(1_500, 32)[::30] + np.float32(0.05)
    M = (rng(3).normal(size=(32, 32)) * np.geomspace(20, 0.1, 32)).astype(np.float32)
    A, B = factors(M)
    exact = NeighborIndex(X, "exact", metric="dot").nearest(10, Q @ M)[1]
    known = NeighborIndex(X @ B.T, "itq;bits=64,candidates=5", metric="dot").nearest(10, Q @ A.T)[1]
    apart = NeighborIndex(X, "itq;bits=64,candidates=5", metric="dot").nearest(10, Q)[1]
    assert recall(known, exact) > recall(apart, exact) + 0.2
    everyone = NeighborIndex(X @ B.T, "itq;bits=8,candidates=150", metric="dot")
    assert recall(everyone.nearest(10, Q @ A.T)[1], exact) > 0.99


@pytest.mark.parametrize("setting", ["bits=12", "bits=0", "bits=9999", "candidates=0", "links=3",
                                     "bits", "bits=²"])  # fmt: skip
def test_bad_settings(setting):
    with pytest.raises(ValueError, match="'itq' takes bits, a multiple of 8"):
        nearest(rows(), 3, index=f"itq;{setting}")


def test_few_rows():
    found = nearest(rows(4), 3, index="itq;bits=8")[1]
    assert sorted(found[0].tolist()) == [1, 2, 3]
