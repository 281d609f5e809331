"""Whitening within classes, against the formula in double precision."""

import numpy as np
import pytest
from scipy import linalg, sparse
from sklearn.utils.estimator_checks import parametrize_with_checks

import nearkin
from nearkin import SLNE, FourierFeatures, SoftVotingKNN, WithinClassWhitening
from nearkin.preprocessing import pca

SHAPE = 120, 7


def data(seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, SHAPE[0])
    mixing = rng.normal(size=(SHAPE[1], SHAPE[1]))
    X = rng.normal(size=SHAPE) @ mixing + 3 * rng.normal(size=(4, SHAPE[1]))[y] + 5
    return X.astype(np.float32), y


def naive(X, y, Q, shrinkage=1.0, power=1.0, unit_length=True):
    """(S_w + λ tr(S_w)/D I)^(−1/2) (q − mean), literally."""
    X, Q = (np.sign(A) * np.abs(A.astype(float)) ** power for A in (X, Q))
    D = X.shape[1]
    S = sum((X[y == c] - X[y == c].mean(0)).T @ (X[y == c] - X[y == c].mean(0)) for c in set(y))
    S /= len(X) - len(set(y))
    whitened = (Q - X.mean(0)) @ linalg.inv(
        linalg.sqrtm(S + shrinkage * np.trace(S) / D * np.eye(D))
    )
    return whitened / np.linalg.norm(whitened, axis=1, keepdims=True) if unit_length else whitened


@parametrize_with_checks([WithinClassWhitening(), WithinClassWhitening(0.1, power=0.5)])
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("unit_length", [True, False])
@pytest.mark.parametrize(("shrinkage", "power"), [(1e-3, 1.0), (1.0, 1.0), (30.0, 0.5)])
def test_the_formula(shrinkage, power, unit_length, monkeypatch):
    monkeypatch.setattr(pca, "BLOCK_BYTES", 700)  # 25 rows a block
    X, y = data()
    names = np.array(["wren", "owl", "kite", "tern"])[y]
    settings = {"power": power, "unit_length": unit_length}
    made = WithinClassWhitening(shrinkage, **settings).fit(X[:90], names[:90]).transform(X)
    assert made.dtype == np.float32
    expected = naive(X[:90], y[:90], X, shrinkage, **settings)
    np.testing.assert_allclose(made, expected, atol=2e-4)


@pytest.mark.parametrize("outside", [0.0, 0.3])
def test_directions_in_which_class_means_do_not_differ(outside):
    X, y = data()
    whitened = WithinClassWhitening(0.1, unit_length=False).fit(X, y).transform(X)
    made = WithinClassWhitening(0.1, outside=outside, unit_length=False).fit(X, y).transform(X)
    means = np.stack([whitened[y == c].mean(axis=0, dtype=float) for c in range(4)])
    basis = linalg.orth((means - means.mean(axis=0)).T, rcond=1e-4)
    assert basis.shape == (7, 3)
    inside = whitened @ basis @ basis.T
    np.testing.assert_allclose(made, inside + outside * (whitened - inside), atol=1e-4)


@pytest.mark.parametrize("form", ["float16", "float64", "memmap", "csr", "csr with duplicates"])
def test_rows_of_any_form(form, tmp_path):
    X, y = data()
    X = np.round(X).astype(np.float32)  # exact in half precision
    given = X.astype(form) if form.startswith("float") else X
    if form == "memmap":
        np.save(tmp_path / "X.npy", X)
        given = np.load(tmp_path / "X.npy", mmap_mode="r")
    elif form == "csr":
        given = sparse.csr_array(X)
    elif form == "csr with duplicates":
        row, column = np.nonzero(X)
        halves = np.tile(X[row, column] / 2, 2)
        given = sparse.coo_array((halves, (np.tile(row, 2), np.tile(column, 2))), X.shape).tocsr()
    made = WithinClassWhitening(power=0.5).fit(given, y).transform(given)
    np.testing.assert_allclose(made, naive(X, y, X, power=0.5), atol=2e-4)


def test_classes_of_single_points_are_only_centred():
    """Nothing varies within: S_w is zero."""
    X = np.repeat([[1.0, 2.0], [5.0, 2.0]], 3, axis=0)
    made = WithinClassWhitening(unit_length=False).fit(X, [0, 0, 0, 1, 1, 1]).transform(X)
    np.testing.assert_allclose(made, X - X.mean(axis=0), atol=1e-6)


def test_a_class_of_one_row_and_more_columns_than_rows():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 30)), np.r_[np.zeros(6, int), np.ones(5, int), 2]
    made = WithinClassWhitening().fit(X, y).transform(X)
    np.testing.assert_allclose(made, naive(X, y, X), atol=2e-4)


@pytest.mark.parametrize(
    "preprocess",
    [
        WithinClassWhitening(0.3),
        FourierFeatures(WithinClassWhitening(unit_length=False), n_features=20, random_state=0),
    ],
)
def test_in_a_model_that_is_saved_and_loaded(tmp_path, preprocess):
    X, y = data()
    learner = SLNE(n_neighbors=10, max_epochs=2, random_state=0)
    model = SoftVotingKNN(learner, preprocess=preprocess, vote="softmax", random_state=0)
    model.fit(X[:90], y[:90])
    np.testing.assert_array_equal(model.database_, preprocess.fit(X[:90], y[:90]).transform(X[:90]))
    model.save(tmp_path / "m")
    again = nearkin.load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize(
    "preprocess", [WithinClassWhitening(), FourierFeatures(WithinClassWhitening(), n_features=9)]
)
def test_a_vote_is_not_chosen_on_rows_whose_labels_it_has_seen(preprocess):
    X, y = data()
    for similarity in (None, SLNE(n_neighbors=10)):
        with pytest.raises(ValueError, match=r"vote='auto' cannot choose after .*, which has seen"):
            SoftVotingKNN(similarity, preprocess=preprocess).fit(X, y)
    with pytest.raises(ValueError, match="that has seen the labels of the rows to choose on"):
        SoftVotingKNN(preprocess=preprocess.fit(X, y)).fit(X, y)


@pytest.mark.parametrize("y", ["x", 1j, None, iter([1]), np.zeros((60, 2))])
def test_what_is_no_array_of_labels(y):
    with pytest.raises((TypeError, ValueError), match=r"\by\b"):
        WithinClassWhitening().fit(data()[0], y)


def test_labels_are_needed():
    X, y = data()
    for labels in (y[:-1], np.linspace(0, 1, len(X))):
        with pytest.raises(ValueError, match=r"inconsistent|continuous"):
            WithinClassWhitening().fit(X, labels)


def test_a_fitted_state_without_a_part():
    X, y = data()
    for name in ("mean_", "map_"):
        model = WithinClassWhitening().fit(X, y)
        delattr(model, name)
        with pytest.raises(ValueError, match=f"{name} of the model"):
            model.transform(X)
