import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import RBFSampler
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.estimator_checks import parametrize_with_checks

import nearkin
from nearkin import FourierFeatures, Preprocess
from nearkin.neighbors import nearest
from nearkin.preprocessing.transformers import search_columns, search_width_of, width_of


@parametrize_with_checks(
    [FourierFeatures(n_features=20), FourierFeatures(n_features=9, linear=0.5)]
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn(estimator, check):
    check(estimator)


def test_unit_length_and_the_same_for_a_seed(tmp_path):
    X, _ = load_digits(return_X_y=True)
    before = Preprocess(10, unit_length=False)
    models = [FourierFeatures(before, n_features=50, random_state=seed) for seed in (0, 0, 1)]
    first, same, other = (model.fit_transform(X) for model in models)
    np.testing.assert_allclose(np.linalg.norm(first, axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(first, same)
    assert not np.allclose(first, other)
    nearkin.save(models[0], tmp_path / "fourier.safetensors")
    again = nearkin.load(tmp_path / "fourier.safetensors")
    np.testing.assert_array_equal(again.transform(X), first)


def test_inner_products_approach_the_gaussian_kernel():
    X = np.random.default_rng(0).normal(size=(40, 3))
    fourier = FourierFeatures(n_features=20_000, bandwidth=0.8, random_state=0)
    Z = fourier.fit_transform(X)
    scaled = Preprocess(unit_length=False).fit_transform(X) / fourier.scale_
    squared = ((scaled[:, None] - scaled[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(Z @ Z.T, np.exp(-(0.8**2) * squared / 2), atol=0.05)


def test_inner_products_with_a_linear_share(tmp_path):
    X = np.random.default_rng(0).normal(size=(40, 3))
    before = Preprocess(unit_length=False)
    fourier = FourierFeatures(before, n_features=30, linear=0.3, random_state=0).fit(X)
    Z = fourier.transform(X)
    waves = FourierFeatures(before, n_features=30, random_state=0).fit_transform(X)
    rows = before.fit_transform(X)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    assert Z.shape == (40, 63)
    assert len(fourier.get_feature_names_out()) == 63
    assert width_of(fourier, *X.shape) == 63
    np.testing.assert_allclose(Z @ Z.T, 0.7 * waves @ waves.T + 0.3 * unit @ unit.T, atol=1e-5)
    nearkin.save(fourier, tmp_path / "fourier.safetensors")
    again = nearkin.load(tmp_path / "fourier.safetensors")
    np.testing.assert_array_equal(again.set_params(linear=0).transform(X), Z)


@pytest.mark.parametrize(
    ("columns", "linear", "searched"),
    [(16, 0.5, 16), (20, 1.0, 20), (15, 0.5, 0), (20, 0.4, 0), (20, 0.0, 0)],
)
def test_linear_columns_are_searched_where_they_tell_enough(columns, linear, searched):
    X = np.random.default_rng(0).normal(size=(40, 20))
    fourier = FourierFeatures(
        Preprocess(columns), n_features=9, linear=linear, random_state=0
    )  # fmt: skip
    assert search_width_of(fourier, *X.shape) == searched
    assert search_columns(fourier.fit(X)) == searched
    assert fourier.transform(X).shape[1] == width_of(fourier, *X.shape)


@pytest.mark.parametrize(("columns", "low", "high"), [(2, 0, 0.5), (16, 0.75, 1)])
def test_what_the_linear_columns_find_of_the_rows_that_all_find(columns, low, high):
    """Why few of them are not searched alone."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10, columns))[rng.integers(0, 10, 2_000)]
    X += rng.normal(size=X.shape)
    fourier = FourierFeatures(n_features=160, bandwidth=1.8, linear=0.5, random_state=0)
    Z = fourier.fit_transform(X)
    near, found = (nearest(rows, 50)[1] for rows in (Z, np.ascontiguousarray(Z[:, -columns:])))
    share = np.mean([len(np.intersect1d(a, b)) / 50 for a, b in zip(near, found)])
    assert low < share < high


@pytest.mark.parametrize(
    "settings", [{"n_features": 0}, {"n_features": 2.5}, {"bandwidth": 0}, {"linear": 1.5}]
)
def test_bad_parameters(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        FourierFeatures(**settings).fit(np.eye(5))


def test_a_fitted_transformer_keeps_its_size():
    X = np.random.default_rng(0).normal(size=(40, 3))
    fourier = FourierFeatures(n_features=20, random_state=0).fit(X)
    assert fourier.set_params(n_features=5).transform(X).shape == (40, 40)


def test_closer_to_the_kernel_than_scikit_learn_with_as_many_columns():
    """Pairs of cosine and sine against cosines with random phases: why RBFSampler is not used."""
    X = np.random.default_rng(0).normal(size=(200, 6))
    ours, theirs = [], []
    for seed in range(5):
        fourier = FourierFeatures(n_features=100, random_state=seed)
        Z = fourier.fit_transform(X)
        scaled = fourier.preprocess_.transform(X) / fourier.scale_
        kernel = rbf_kernel(scaled, gamma=0.5)
        ours.append(np.square(Z @ Z.T - kernel).mean())
        Z = RBFSampler(gamma=0.5, n_components=200, random_state=seed).fit_transform(scaled)
        theirs.append(np.square(Z @ Z.T - kernel).mean())
    assert np.mean(ours) < 0.9 * np.mean(theirs)


def test_a_fitted_state_that_gives_no_angles():
    X = np.random.default_rng(0).normal(size=(30, 4))
    model = FourierFeatures(n_features=5, random_state=0).fit(X)
    model.directions_[0, 0] = 3e38
    with pytest.raises(ValueError, match="directions_ of the model, has numbers whose products"):
        model.transform(100 * X)
    model.preprocess_ = np.ones(3)
    with pytest.raises(ValueError, match=r"preprocess_=.* must be a transformer"):
        model.transform(X)
