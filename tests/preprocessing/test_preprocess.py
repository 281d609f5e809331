import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_limits

import nearkin
from nearkin import Preprocess
from nearkin.native.threads import limited
from nearkin.preprocessing import pca

SHAPES = {"gram": (40, 90), "covariance": (300, 20)}


def rows(shape, seed=0):
    rng = np.random.default_rng(seed)
    decay = 0.9 ** np.arange(shape[1])
    return (rng.normal(size=shape) * decay + 3).astype(np.float32)


@parametrize_with_checks(
    [Preprocess(), Preprocess(whitening=0.0, center=False), Preprocess(power=0.5)]
)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("method", SHAPES)
def test_every_method_finds_the_directions_of_an_svd(method, monkeypatch):
    monkeypatch.setattr(pca, "BLOCK_BYTES", 4_000)  # several blocks
    X = rows(SHAPES[method])
    model = Preprocess(8, whitening=1.0, unit_length=False, random_state=0).fit(X)
    exact = PCA(8).fit(X.astype(float))
    alike = np.abs(np.einsum("nd,nd->n", model.directions_, exact.components_))
    np.testing.assert_allclose(alike, 1, atol=1e-3)
    n = len(X)
    np.testing.assert_allclose(model.variances_, exact.explained_variance_ * (n - 1) / n, rtol=1e-3)
    np.testing.assert_allclose(model.transform(X).std(axis=0), 1, rtol=1e-3)


@pytest.mark.parametrize("given_as", [np.asarray, sparse.csr_array])
def test_subspace_iteration_finds_the_same_directions(given_as, monkeypatch):
    monkeypatch.setattr(pca, "PANEL", 7)  # several panels
    X = rows((300, 60))
    rng = np.random.default_rng(0)
    found = pca.principal_directions(given_as(X), 8, X.mean(axis=0), rng, max_eigh=50)
    exact = PCA(8).fit(X.astype(float))
    alike = np.abs(np.einsum("nd,nd->n", found[0], exact.components_))
    np.testing.assert_allclose(alike, 1, atol=1e-3)
    np.testing.assert_allclose(found[1], exact.explained_variance_ * 299 / 300, rtol=1e-3)


@given(st.floats(0, 1), st.booleans(), st.integers(0, 99))
@settings(deadline=None, max_examples=25)
def test_whitening_scales_by_the_power_of_the_variance(whitening, unit, seed):
    X = rows((50, 6), seed)
    Z = Preprocess(4, whitening=whitening, unit_length=unit).fit_transform(X)
    base = Preprocess(4, whitening=0.0, unit_length=False).fit(X)
    expected = base.transform(X) * base.variances_ ** (-whitening / 2)
    if unit:
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(Z, expected, atol=1e-4)


@pytest.mark.parametrize("method", SHAPES)
def test_power_is_applied_first(method):
    X = np.where(np.random.default_rng(1).random(SHAPES[method]) < 0.5, 0, rows(SHAPES[method]) - 3)
    powered = np.sign(X) * np.abs(X) ** np.float32(0.5)
    expected = Preprocess(5, random_state=0).fit_transform(powered)
    for given_as in (np.asarray, sparse.csr_array):
        model = Preprocess(5, power=0.5, random_state=0).fit(given_as(X))
        np.testing.assert_allclose(model.transform(given_as(X)), expected, atol=2e-4)
    with pytest.raises(ValueError, match="power=0 must be"):
        Preprocess(power=0).fit(X)


@pytest.mark.parametrize("method", SHAPES)
def test_sparse_half_precision_and_mapped(method, tmp_path):
    X = np.where(np.random.default_rng(1).random(SHAPES[method]) < 0.7, 0, rows(SHAPES[method]))
    X = X.astype(np.float16).astype(np.float32)  # exact in half precision
    expected = Preprocess(5, random_state=0).fit_transform(X)
    np.save(tmp_path / "x.npy", X.astype(np.float16))
    for other in (sparse.csr_array(X), sparse.csc_array(X), np.load(tmp_path / "x.npy", "r")):
        Z = Preprocess(5, random_state=0).fit_transform(other)
        assert Z.dtype == np.float32
        np.testing.assert_allclose(Z, expected, atol=2e-3)


def test_to_a_file(tmp_path):
    X = rows((50, 6))
    model = Preprocess(3).fit(X)
    mapped = model.transform(X, out=tmp_path / "z.npy")
    assert isinstance(mapped, np.memmap)
    np.testing.assert_array_equal(mapped, model.transform(X))
    assert [p.name for p in tmp_path.iterdir()] == ["z.npy"]


def test_directions_without_variance_are_not_amplified():
    X = np.repeat(rows((30, 3)), 2, axis=1)  # rank 3 in six columns
    Z = Preprocess(whitening=1.0, unit_length=False).fit_transform(X)
    assert np.abs(Z[:, 3:]).max() < 1e-2
    constant = np.ones((5, 3), np.float32)
    np.testing.assert_array_equal(Preprocess().fit_transform(constant), np.zeros((5, 3)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_components": 7}, "at most 6 directions"),
        ({"n_components": 0}, "n_components=0"),
        ({"n_components": 2.5}, r"n_components=2\.5 must be a whole number"),
        ({"whitening": -0.1}, "whitening=-0.1"),
        ({"whitening": 1.1}, "whitening=1.1"),
    ],
)
def test_bad_parameters(settings, message):
    with pytest.raises(ValueError, match=message):
        Preprocess(**settings).fit(rows((50, 6)))


def test_a_large_mean_is_no_direction():
    """Fewer rows than columns: the rounded mean leaves an error that whitening must not amplify."""
    rng = np.random.default_rng(0)
    X, Q = ((rng.normal(size=(n, 200)) + 1e4).astype(np.float32) for n in (50, 20))
    made = Preprocess(whitening=1.0, unit_length=False).fit(X).transform(Q)
    assert np.abs(made).max() < 10


def test_duplicate_entries_of_a_sparse_matrix_are_summed_first():
    parts = sparse.csr_array(([1.0, 3.0, 4.0], [0, 0, 1], [0, 2, 3]), shape=(2, 2))
    model = Preprocess(power=0.5, center=False, whitening=0.0, unit_length=False).fit(parts)
    whole = model.fit(parts.toarray()).transform(parts.toarray())
    np.testing.assert_allclose(model.fit(parts).transform(parts), whole, atol=1e-6)
    assert parts.nnz == 3


@pytest.mark.parametrize(("rows", "columns"), [(1_500, 700), (300, 700), (1_500, 701)])
def test_the_same_bits_on_any_number_of_threads(rows, columns, monkeypatch):
    if columns == 701:
        monkeypatch.setattr(pca.principal_directions, "__defaults__", (100,))  # subspace iteration
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, columns)) * np.linspace(1, 3, columns)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads), limited(threads):
            model = Preprocess(min(rows, 600), random_state=0).fit(X)
            found.append((model.directions_, model.variances_, model.transform(X)))
    for one, other in zip(*found):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "model",
    [
        Preprocess(),
        Preprocess(unit_length=False),
        nearkin.WithinClassWhitening(),
        nearkin.UnitLength(),
        nearkin.FourierFeatures(n_features=5),
    ],
)
def test_rows_beyond_float32_are_refused(model):
    X = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
    y = np.arange(30) % 2
    for factor in (1e-30, 1e30):
        with pytest.raises(ValueError, match="X: its largest number is"):
            model.fit(X * np.float32(factor), y)
    model.fit(X, y)
    for form in (np.float32, np.float64):
        far = X.astype(form)
        far[3, 1] = 3e38
        with pytest.raises(ValueError, match=r"X: its largest number is 3.0e\+38.*beyond float32"):
            model.transform(far)


def test_truncated_to_more_directions_than_there_are():
    fitted = Preprocess().fit(np.random.default_rng(0).normal(size=(30, 4)))
    for n in (0, 5, "x", np.uint8(255)):
        with pytest.raises(ValueError, match="n_components"):
            fitted.truncated(n)


@pytest.mark.parametrize("width", [None, "x", 2])
def test_a_model_without_its_width(width):
    X = rows((30, 4))
    model = Preprocess().fit(X)
    model._n_features_out = width
    with pytest.raises(ValueError, match=r"_n_features_out|directions_"):
        model.transform(X)
