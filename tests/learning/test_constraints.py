import numpy as np
import pytest

from nearkin import SLNE, Constraint, Preprocess
from samples import blobs

rng = np.random.default_rng


@pytest.mark.parametrize(
    "model",
    [
        SLNE.paper(max_epochs=1, constraint=Constraint(psd=True, rank=1)),
        Preprocess(1, unit_length=False),
    ],
)
def test_a_row_on_a_line_stands_where_it_does_in_any_company(model):
    X, y = blobs(n=60, dims=3)
    line = model.fit(X, y).transform(X)
    assert line.shape == (60, 1)
    for seed in range(20):
        some = rng(seed).permutation(60)[: rng(seed).integers(1, 61)]
        np.testing.assert_array_equal(model.transform(X[some]), line[some])


@pytest.mark.parametrize("norm", [0.5, 3.0])
def test_restore_projects_and_then_scales(norm):
    M = rng(0).normal(size=(5, 5)).astype(np.float32)
    values, vectors = np.linalg.eigh((M + M.T).astype(np.float64) / 2)
    nearest = vectors @ np.diag(np.maximum(values, 0)) @ vectors.T
    Constraint(psd=True, normalize=True).restore(M, norm)
    np.testing.assert_allclose(M, nearest * norm / np.linalg.norm(nearest), atol=1e-5)


@pytest.mark.parametrize("value", [0, np.nan])
def test_restore_leaves_a_matrix_that_has_no_norm(value):
    M = np.full((3, 3), value, np.float32)
    Constraint(rank=1, normalize=True).restore(M, 1.0)
    np.testing.assert_array_equal(M, np.full((3, 3), value))
