"""Rows prepared by a linear map, which folds into the query."""

import numpy as np
import pytest

import nearkin
from nearkin import SLDE, SLNE, Preprocess, SoftVotingKNN, WithinClassWhitening
from samples import blobs

LINEAR = [
    "auto",
    Preprocess(4, whitening=0.5, unit_length=False),
    WithinClassWhitening(0.3, unit_length=False),
]


@pytest.fixture(scope="module")
def rows():
    X, y = blobs(n=300, dims=8, spread=1.0)
    return (X * np.arange(1, 9) + 5).astype(np.float32), y


def learned(prepare, X, y):
    return SLNE("softmax", prepare=prepare, n_neighbors=20, max_epochs=1, random_state=0).fit(X, y)


@pytest.mark.parametrize("prepare", LINEAR, ids=str)
def test_m_is_that_of_rows_prepared_before(rows, prepare):
    X, y = rows
    model = learned(prepare, X, y)
    made = model.preparation_.transform(X)
    assert (model.matrix_ == learned(None, made, y).matrix_).all()


@pytest.mark.parametrize("prepare", LINEAR, ids=str)
def test_queries_are_compared_with_the_rows_as_given(rows, prepare):
    X, y = rows
    model = learned(prepare, X, y)
    A, mean = model.preparation_.linear_map().astype(float), model.preparation_.mean_.astype(float)
    made = (X.astype(float) - mean) @ A.T
    exact = made[:20] @ model.matrix_ @ made.T
    lists = np.tile(np.arange(len(X), dtype=np.int32), (20, 1))
    tolerance = {"atol": 1e-4 * np.abs(exact).max()}
    np.testing.assert_allclose(model.similarity(X[:20], X), exact, **tolerance)
    np.testing.assert_allclose(model.neighbor_scores(X[:20], X, lists), exact, **tolerance)
    pairs = np.stack([X[:20], X[20:40]], axis=1)
    np.testing.assert_allclose(model.pair_score(pairs), np.diag(exact[:, 20:40]), **tolerance)
    offset = model.transform_query(X[:20]) @ X.T - exact
    np.testing.assert_allclose(offset, np.repeat(offset[:, :1], len(X), axis=1), **tolerance)


def test_an_ensemble_prepares_as_its_learner_would(rows):
    X, y = rows
    learner = SLNE("all", n_neighbors=20, max_epochs=1)
    model = SLDE(learner, n_members=2, random_state=0).fit(X, y)
    made = model.preparation_.transform(X)
    apart = SLDE(learner.unprepared(), n_members=2, random_state=0).fit(made, y)
    assert (model.matrix_ == apart.matrix_).all()
    same = model.transform_query(X[:9]) @ X.T
    own = apart.similarity(made[:9], made)
    assert (same.argsort(axis=1)[:, -3:] == own.argsort(axis=1)[:, -3:]).all()


def test_labels_are_not_seen_where_rows_judge(rows):
    X, y = rows
    learner = SLNE(n_neighbors=20, max_epochs=1, validation_fraction=0.2, random_state=0)
    assert isinstance(learner.fit(X, y).preparation_, Preprocess)
    assert isinstance(
        SLDE(learner, n_members=2, weights="accuracy").fit(X, y).preparation_, Preprocess
    )
    learner.set_params(prepare=WithinClassWhitening(unit_length=False))
    with pytest.raises(ValueError, match=r"validation_fraction=0.2 .* labels .*'auto'"):
        learner.fit(X, y)
    with pytest.raises(ValueError, match=r"weights='accuracy' .* labels"):
        SLDE(learner, n_members=2, weights="accuracy").fit(X, y)


@pytest.mark.parametrize(
    "prepare", [Preprocess(), Preprocess(power=0.5, unit_length=False), "pca", 3], ids=str
)
def test_what_does_not_fold_is_refused(rows, prepare):
    with pytest.raises(ValueError, match=r"^prepare=.* must be"):
        SLNE(prepare=prepare).fit(*rows)


def test_new_rows_are_prepared_alike(rows):
    X, y = rows
    model = learned("auto", X[:200], y[:200])
    before = model.preparation_
    made = before.transform(X)
    apart = learned(None, made[:200], y[:200])
    assert (
        model.partial_fit(X[200:], y[200:]).matrix_
        == apart.partial_fit(made[200:], y[200:]).matrix_
    ).all()
    assert model.set_params(warm_start=True).fit(X, y).preparation_ is before


@pytest.mark.parametrize("model", [SLNE(n_neighbors=20), SLDE(SLNE(n_neighbors=20), n_members=2)])
def test_a_preparation_is_saved(rows, tmp_path, model):
    X, y = rows
    model.set_params(random_state=0).fit(X, y)
    nearkin.save(model, tmp_path / "model.safetensors")
    loaded = nearkin.load(tmp_path / "model.safetensors")
    assert (loaded.transform_query(X) == model.transform_query(X)).all()


def test_prepared_rows_are_kept_in_a_folder(rows, tmp_path):
    X, y = rows
    settings = {"n_neighbors": 20, "max_epochs": 1, "random_state": 0}
    kept = SLNE(**settings).fit(X, y, folder=tmp_path / "run")
    again = SLNE(**settings).fit(X, y, folder=tmp_path / "run")
    assert (kept.matrix_ == SLNE(**settings).fit(X, y).matrix_).all()
    assert (kept.matrix_ == again.matrix_).all()


def test_a_classifier_prepares_for_its_learner(rows):
    X, y = rows
    learner = SLNE("softmax", n_neighbors=20, max_epochs=1)
    model = SoftVotingKNN(learner, random_state=0).fit(X, y)
    same = SoftVotingKNN(learner.unprepared(), preprocess=Preprocess(), random_state=0).fit(X, y)
    assert isinstance(model.preprocess_, Preprocess)
    assert model.similarity_.preparation_ is None
    assert (model.predict_proba(X) == same.predict_proba(X)).all()
    plain = SoftVotingKNN(learner, preprocess=None, random_state=0).fit(X, y)
    assert (plain.database_ == X).all()


def test_a_classifier_takes_over_a_fitted_preparation(rows):
    X, y = rows
    learner = learned("auto", X, y)
    model = SoftVotingKNN(learner, vote="softmax", n_neighbors=10).fit(X, y)
    assert model.preprocess_ is learner.preparation_
    scores, found = model.kneighbors(X[:5])
    exact = learner.similarity(X[:5], X)
    np.testing.assert_allclose(
        scores, np.take_along_axis(exact, found, 1), atol=1e-4 * np.abs(exact).max()
    )
    with pytest.raises(ValueError, match=r"^preprocess=Preprocess .* leave preprocess out"):
        SoftVotingKNN(learner, preprocess=Preprocess(8), vote="softmax").fit(X, y)


def test_rows_beyond_memory_are_refused_with_advice(rows, monkeypatch):
    X, y = rows
    monkeypatch.setattr("nearkin.validation.memory.available", lambda: 1 << 20)
    with pytest.raises(MemoryError, match="folder="):
        SLNE().fit(X, y)


def test_a_fit_keeps_nothing_large_alive(rows):
    X, y = rows
    model = learned("auto", X, y)
    kept = [value for value in vars(model._cached_seen).values() if isinstance(value, np.ndarray)]
    assert all(np.shares_memory(array, X) or array.size <= len(y) for array in kept)
