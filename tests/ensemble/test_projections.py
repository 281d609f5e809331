import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA

from nearkin.ensemble.projections import Fixed, Random, make_projections

rng = np.random.default_rng


def rows(n=200, D=12):
    return (rng(0).normal(size=(n, D)) * np.linspace(3, 0.5, D) + 5).astype(np.float32)


def test_pca_blocks_are_consecutive_directions_unscaled():
    X = rows()
    made, energies = make_projections("pca", X, 3, 4, rng(0))
    whole = np.concatenate([P.matrix() for P in made])
    np.testing.assert_allclose(whole @ whole.T, np.eye(12), atol=1e-4)
    exact = PCA().fit(X)
    np.testing.assert_allclose(np.abs((whole * exact.components_).sum(axis=1)), 1, atol=1e-3)
    np.testing.assert_allclose(
        energies, exact.explained_variance_ratio_.reshape(3, 4).sum(axis=1), rtol=1e-3
    )


@given(st.sampled_from(["random", "sparse"]), st.integers(1, 40), st.integers(0, 99))
@settings(deadline=None)
def test_random_matrices_keep_lengths_on_average(kind, d, seed):
    P = Random(kind, d, 40, seed).matrix()
    assert P.shape == (d, 40)
    assert P.dtype == np.float32
    np.testing.assert_array_equal(P, Random(kind, d, 40, seed).matrix())
    assert (P**2).sum() == pytest.approx(40, rel=6 / np.sqrt(40 * d))


@given(st.integers(1, 40), st.integers(1, 12))
@settings(deadline=None)
def test_orthonormal_members_of_one_rotation_are_parts_of_the_identity(d, members):
    """As blocks of directions of the rows are: unscaled, with nothing in common."""
    made, _ = make_projections("orthonormal", rows(D=40), members, d, rng(3))
    stack = np.concatenate([P.matrix() for P in made])
    assert stack.shape == (members * d, 40)
    for lo in range(0, len(stack), 40):
        part = stack[lo : lo + 40]
        np.testing.assert_allclose(part @ part.T, np.eye(len(part)), atol=1e-5)


def test_mixed_is_half_and_half():
    made, energies = make_projections("mixed", rows(), 6, 4, rng(0))
    assert [type(P) for P in made] == [Fixed] * 3 + [Random] * 3
    assert len(energies) == 3


def test_even_partition_when_d_is_left_out():
    assert {P.matrix().shape for P in make_projections("pca", rows(), 3, None, rng(0))[0]} == {
        (4, 12)
    }


def test_no_more_blocks_than_columns():
    with pytest.warns(UserWarning, match="n_members=20 .* 12 columns; 12 members are used"):
        assert len(make_projections("pca", rows(), 20, None, rng(0))[0]) == 12
    assert len(make_projections("random", rows(), 20, None, rng(0))[0]) == 20
    assert len(make_projections("mixed", rows(), 40, None, rng(0))[0]) == 40


def test_more_blocks_than_columns_overlap_if_their_size_is_given():
    made, _ = make_projections("pca", rows(), 20, 2, rng(0))
    assert [P.shape for P in made] == [(2, 12)] * 20


def test_rows_that_vary_in_too_few_directions():
    X = rows()
    X[:, 3:] = 0
    with pytest.raises(ValueError, match="n_components=5, but the rows of X vary in 3 directions"):
        make_projections("pca", X, 4, 5, rng(0))


def test_fewer_rows_than_directions():
    made, energies = make_projections("pca", rows(n=5), 3, 4, rng(0))
    assert sum(energies) == pytest.approx(1, abs=1e-3)
    assert all(np.isfinite(P.matrix()).all() for P in made)


@pytest.mark.parametrize(
    ("kind", "members", "d", "message"),
    [
        ("pca", 2, 13, "n_components=13 must lie between 1 and the 12"),
        ("random", 2, 0, "n_components=0"),
        ("random", 2.5, 2, "n_members=2.5 must be a whole number"),
        ("random", 2, 2.5, "n_components=2.5 must be a whole number"),
        ("nonsense", 2, 2, "projection='nonsense'"),
        ([np.ones((2, 5))], 1, None, r"shape \(2, 5\); \(d, 12\)"),
        ([np.ones(12)], 1, None, r"or a list of \(d, D\) matrices"),
    ],
)
def test_bad_projections(kind, members, d, message):
    with pytest.raises(ValueError, match=message):
        make_projections(kind, rows(), members, d, rng(0))
