"""Wherever there is a `transform`: names of its columns, and data frames."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

import nearkin
from nearkin import (
    SLDE,
    SLNE,
    Constraint,
    FourierFeatures,
    Preprocess,
    UnitLength,
    WithinClassWhitening,
)
from nearkin.images import LLC
from pictures import encoded, textured
from samples import blobs

PSD = SLNE.paper(max_epochs=1, n_neighbors=5, random_state=0, constraint=Constraint(psd=True))
ESTIMATORS = {
    "preprocess": Preprocess(3),
    "withinclasswhitening": WithinClassWhitening(),
    "unitlength": UnitLength(power=0.5),
    "fourierfeatures": FourierFeatures(n_features=4, random_state=0),
    "slne": PSD,
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_rows_come_as_data_frames_with_names(name, tmp_path):
    X, y = blobs(n=60, dims=6)
    model = clone(ESTIMATORS[name])
    with pytest.raises(NotFittedError):
        model.get_feature_names_out()
    plain = model.fit(X, y).transform(X)
    assert isinstance(plain, np.ndarray)
    names = [f"{name}{i}" for i in range(plain.shape[1])]
    assert model.get_feature_names_out().tolist() == names
    index = [f"row {i}" for i in range(60)]
    columns = [f"c{i}" for i in range(6)]
    named = clone(model).set_output(transform="pandas")
    for frame in (named.fit(pd.DataFrame(X, index, columns), y).transform(
                      pd.DataFrame(X, index, columns)),
                  named.fit_transform(pd.DataFrame(X, index, columns), y)):  # fmt: skip
        assert (list(frame.columns), list(frame.index)) == (names, index)
        np.testing.assert_array_equal(frame.to_numpy(), plain)
    with config_context(transform_output="polars"):
        assert isinstance(model.transform(X), pl.DataFrame)
    assert isinstance(clone(named).fit(X, y).transform(X), pd.DataFrame)  # copies keep it
    nearkin.save(named, tmp_path / "m.safetensors")
    loaded = nearkin.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(
        np.asarray(loaded.transform(pd.DataFrame(X, columns=columns))), plain
    )


def test_in_a_pipeline():
    X, y = blobs(n=60, dims=6)
    line = make_pipeline(Preprocess(4), clone(PSD)).set_output(transform="pandas").fit(X, y)
    assert line.transform(X).columns.tolist() == line.get_feature_names_out().tolist()


@pytest.mark.parametrize("model", [SLNE(), SLDE()])
def test_without_psd_there_is_no_transform_and_nothing_to_set(model):
    for name in ("transform", "fit_transform", "get_feature_names_out", "set_output"):
        assert not hasattr(model, name)


def test_features_of_images():
    images = [encoded(textured(i), "PNG") for i in range(4)]
    model = LLC(8, pyramid=(1, 2), random_state=0)
    with pytest.raises(NotFittedError):
        model.get_feature_names_out()
    plain = model.fit(images).transform(images)
    assert isinstance(plain, np.ndarray)
    frame = model.set_output(transform="pandas").transform(images)
    assert frame.columns.tolist() == [f"llc{i}" for i in range(40)]
    np.testing.assert_array_equal(frame.to_numpy(), plain)
    assert isinstance(clone(model).fit_transform(images), pd.DataFrame)
