import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.fft import dct
from scipy.stats import kstest

from nearkin.ensemble.projections import make_projections
from nearkin.ensemble.rotations import FACTORS, rotation_rows, stacked_rows


def whole(D, seed):
    """The rotation as a product of matrices."""
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1, 1], (FACTORS, D))
    cosines, R = dct(np.eye(D), axis=0, norm="ortho"), np.eye(D)
    for flips in signs:
        R = R @ cosines.T @ np.diag(flips)
    return R @ np.eye(D)[:, rng.permutation(D)]


@given(st.integers(1, 50), st.integers(0, 2**63 - 1))
@settings(deadline=None, max_examples=50)
def test_rows_are_those_of_a_product_of_matrices(D, seed):
    R = whole(D, [seed, 0])
    np.testing.assert_allclose(R @ R.T, np.eye(D), atol=1e-12)
    np.testing.assert_allclose(rotation_rows(D, [seed, 0], 0, D), R, atol=1e-5)


@given(st.data(), st.integers(1, 40), st.integers(0, 99))
@settings(deadline=None, max_examples=50)
def test_any_rows_can_be_made_alone(data, D, seed):
    first = data.draw(st.integers(0, 3 * D))
    count = data.draw(st.integers(1, 2 * D))
    stack = np.concatenate([whole(D, [seed, turn]) for turn in range(5)])
    made = stacked_rows(D, seed, first, count)
    assert made.dtype == np.float32
    assert made.shape == (count, D)
    assert made.flags.c_contiguous
    np.testing.assert_allclose(made, stack[first : first + count], atol=1e-5)


@given(st.integers(1, 30), st.data(), st.integers(1, 4))
@settings(deadline=None, max_examples=50)
def test_members_start_at_the_inner_product_after_whole_rotations(D, data, rotations):
    """Blocks that end between two rotations included."""
    d = data.draw(st.integers(1, D))
    members = rotations * D // math.gcd(D, d)
    X = np.zeros((2, D))
    made, _ = make_projections("orthonormal", X, members, d, np.random.default_rng(0))
    total = sum(P.matrix().astype(float).T @ P.matrix() for P in made)
    np.testing.assert_allclose(total, members * d / D * np.eye(D), atol=1e-5 * members)


@pytest.mark.parametrize(("D", "d", "members"), [(40, 7, 9), (40, 30, 3), (41, 10, 5)])
def test_a_rotation_that_is_not_used_up_weighs_directions_by_one_more_or_less(D, d, members):
    X = np.zeros((2, D))
    made, _ = make_projections("orthonormal", X, members, d, np.random.default_rng(0))
    total = sum(P.matrix().T @ P.matrix() for P in made)
    weights, turns = np.linalg.eigvalsh(total), members * d // D
    assert turns - 1e-4 < weights.min() <= weights.max() < turns + 1 + 1e-4


def test_no_column_is_preferred():
    squares = [rotation_rows(3, [seed, 0], 0, 1)[0] ** 2 for seed in range(4_000)]
    np.testing.assert_allclose(np.mean(squares, axis=0), 1 / 3, atol=0.02)


def test_entries_are_about_normal():
    R = rotation_rows(500, [1, 0], 0, 500) * np.sqrt(500)
    assert kstest(R[::10, ::10].ravel(), "norm").pvalue > 0.01
    assert abs((R**4).mean() - 3) < 0.1
