from types import SimpleNamespace

import numpy as np
import pytest

from nearkin.learning.factorization import components, factors, matrix_of

rng = np.random.default_rng


def test_factors_multiply_to_m_with_equal_shares_of_the_singular_values():
    M = rng(0).normal(size=(6, 6)).astype(np.float32)
    A, B = factors(M)
    np.testing.assert_allclose(A.T @ B, M, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(A, axis=1), np.linalg.norm(B, axis=1), rtol=1e-4)


@pytest.mark.parametrize("rank", [1, 3, 6])
def test_components_have_a_row_for_each_positive_eigenvalue(rank):
    L = rng(rank).normal(size=(rank, 6))
    M = (L.T @ L).astype(np.float32)
    found = components(M)
    assert found.shape == (rank, 6)
    np.testing.assert_allclose(found.T @ found, M, atol=1e-4)


def test_the_matrix_of_any_learner():
    L = rng(0).normal(size=(2, 5))
    np.testing.assert_allclose(matrix_of(SimpleNamespace(components_=L)), L.T @ L, rtol=1e-5)
    assert matrix_of(SimpleNamespace(matrix_=np.eye(3))).dtype == np.float32
    with pytest.raises(TypeError, match="neither matrix_ nor components_"):
        matrix_of(SimpleNamespace())
