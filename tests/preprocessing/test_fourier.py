import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import parametrize_with_checks

import nearkin
from nearkin import FourierLift, Preprocess


@parametrize_with_checks([FourierLift(n_features=20)])
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn(estimator, check):
    check(estimator)


def test_unit_length_and_the_same_for_a_seed(tmp_path):
    X, _ = load_digits(return_X_y=True)
    before = Preprocess(10, unit_length=False)
    lifts = [FourierLift(before, n_features=50, random_state=seed) for seed in (0, 0, 1)]
    first, same, other = (lift.fit_transform(X) for lift in lifts)
    np.testing.assert_allclose(np.linalg.norm(first, axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(first, same)
    assert not np.allclose(first, other)
    nearkin.save(lifts[0], tmp_path / "lift.safetensors")
    again = nearkin.load(tmp_path / "lift.safetensors")
    np.testing.assert_array_equal(again.transform(X), first)


def test_inner_products_approach_the_gaussian_kernel():
    X = np.random.default_rng(0).normal(size=(40, 3))
    lift = FourierLift(n_features=20_000, bandwidth=0.8, random_state=0)
    Z = lift.fit_transform(X)
    scaled = Preprocess(unit_length=False).fit_transform(X) / lift.scale_
    squared = ((scaled[:, None] - scaled[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(Z @ Z.T, np.exp(-(0.8**2) * squared / 2), atol=0.05)


@pytest.mark.parametrize("settings", [{"n_features": 0}, {"n_features": 2.5}, {"bandwidth": 0}])
def test_bad_parameters(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        FourierLift(**settings).fit(np.eye(5))


def test_a_fitted_lift_keeps_its_size():
    X = np.random.default_rng(0).normal(size=(40, 3))
    lift = FourierLift(n_features=20, random_state=0).fit(X)
    assert lift.set_params(n_features=5).transform(X).shape == (40, 40)
