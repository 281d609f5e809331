import numpy as np
import pytest
from scipy import sparse
from sklearn.utils.estimator_checks import parametrize_with_checks

import nearkin
from nearkin import SLNE, SoftVotingKNN, UnitLength
from samples import blobs


@parametrize_with_checks([UnitLength(), UnitLength(power=0.5)])
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("power", [1.0, 0.5, 2.0])
@pytest.mark.parametrize("form", [np.asarray, np.float16, np.float64, sparse.csr_array])
def test_rows_of_unit_length(power, form):
    rng = np.random.default_rng(0)
    X = np.round(4 * rng.normal(size=(50, 6)))
    X[3] = 0
    expected = np.sign(X) * np.abs(X) ** power
    length = np.linalg.norm(expected, axis=1, keepdims=True)
    expected /= np.where(length > 0, length, 1)
    made = UnitLength(power=power).fit(form(X)).transform(form(X))
    assert made.dtype == np.float32
    np.testing.assert_allclose(made, expected, atol=1e-6)
    assert not made[3].any()


def test_rows_of_a_memory_map_into_a_file(tmp_path):
    X, _ = blobs(n=50)
    np.save(tmp_path / "X.npy", 3 * X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    made = UnitLength().fit(mapped).transform(mapped, out=tmp_path / "Z.npy")
    np.testing.assert_allclose(made, X, atol=1e-6)


def test_in_a_model_that_is_saved_and_loaded(tmp_path):
    """Neighbours by cosine: the length of a row does not matter."""
    X, y = blobs(n=120)
    longer = X * np.random.default_rng(0).uniform(0.1, 9, (120, 1)).astype(np.float32)
    learner = SLNE(n_neighbors=10, max_epochs=2, random_state=0)
    model = SoftVotingKNN(learner, preprocess=UnitLength(), random_state=0).fit(longer, y)
    np.testing.assert_allclose(model.database_, X, atol=1e-6)
    model.save(tmp_path / "m")
    again = nearkin.load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict_proba(longer), model.predict_proba(longer))
    np.testing.assert_allclose(model.predict_proba(X), model.predict_proba(longer), atol=1e-4)


@pytest.mark.parametrize("factor", [1e-20, 1e-30, 1e-38])
def test_rows_whose_squares_vanish(factor):
    X, _ = blobs(n=50)
    tiny = X.copy()
    tiny[::3] *= np.float32(factor)
    np.testing.assert_allclose(UnitLength().fit(X).transform(tiny), X, atol=1e-6)


def test_powers_that_leave_nothing_are_refused():
    with pytest.raises(ValueError, match="power=1000 must be a number > 0 and <= 10"):
        UnitLength(power=1000).fit(blobs(n=50)[0])
