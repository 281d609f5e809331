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
