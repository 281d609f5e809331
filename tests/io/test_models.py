import datetime
import json
import os
import pkgutil
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors import numpy as library
from sklearn.exceptions import NotFittedError

import nearkin
from nearkin import SLNE, Execution, Preprocess, SoftVotingKNN
from nearkin.io import models, safetensors
from nearkin.io.safetensors import FileFormatError
from samples import blobs

DTYPES = ["f4", "f8", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"]


@given(st.data())
@settings(deadline=None, max_examples=40)
def test_the_format_is_safetensors(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("s") / "a.safetensors"
    arrays = {
        f"a{i}": data.draw(
            hnp.arrays(data.draw(st.sampled_from(DTYPES)), hnp.array_shapes(max_dims=3))
        )
        for i in range(data.draw(st.integers(1, 3)))
    }
    odd = {name: (a.T if data.draw(st.booleans()) else a) for name, a in arrays.items()}
    safetensors.write(path, odd, {"k": "v"})
    theirs, (ours, metadata) = library.load_file(path), safetensors.read(path)
    assert metadata == {"k": "v"}
    for name, array in odd.items():
        np.testing.assert_array_equal(theirs[name], array)
        np.testing.assert_array_equal(ours[name], array)
    library.save_file({k: np.ascontiguousarray(v) for k, v in odd.items()}, path)
    for name, array in safetensors.read(path)[0].items():
        np.testing.assert_array_equal(array, odd[name])


@pytest.fixture
def saved(tmp_path):
    X, y = blobs(n=120)
    names = np.array(["été", "b", "c", "d"])[y]
    learner = SLNE.paper(
        max_epochs=2,
        random_state=np.random.RandomState(0),
        execution=Execution(callback=lambda *_: None),
    )
    model = SoftVotingKNN(learner, preprocess=Preprocess(6), random_state=0).fit(X, names)
    model.save(tmp_path / "m.safetensors")
    return model, tmp_path / "m.safetensors", X


def test_round_trip(saved):
    model, path, X = saved
    again = nearkin.load(path)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.similarity_.history_ == model.similarity_.history_
    assert again.vote_ == model.vote_
    assert again.get_params()["similarity__max_epochs"] == 2
    again.fit(X, model.classes_[np.arange(120) % 4])  # a loaded model can be fitted anew


def test_what_is_not_fitted_is_not_saved(tmp_path):
    for model in (SLNE.paper(), SoftVotingKNN(None), Preprocess()):
        with pytest.raises(NotFittedError, match=f"{type(model).__name__} is not fitted"):
            nearkin.save(model, tmp_path / "m.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_loads_without_copying(saved):
    again = nearkin.load(saved[1])
    assert isinstance(again.database_, np.memmap)
    assert not again.database_.flags.writeable


def test_no_pickle_inside(saved):
    assert b"sklearn" not in saved[1].read_bytes()
    assert json.loads(safetensors.read(saved[1])[1]["model"])["class"] == "SoftVotingKNN"


def test_damage_is_noticed(saved, tmp_path):
    whole = saved[1].read_bytes()
    for cut in (0, 4, 8, 50, len(whole) // 2, len(whole) - 1):
        (tmp_path / "cut").write_bytes(whole[:cut])
        with pytest.raises(FileFormatError, match="cut"):
            nearkin.load(tmp_path / "cut")
    (tmp_path / "other").write_bytes(b"GIF89a" + bytes(100))
    with pytest.raises(FileFormatError, match="not a safetensors file"):
        nearkin.load(tmp_path / "other")
    library.save_file({"a": np.ones(2)}, tmp_path / "foreign")
    with pytest.raises(FileFormatError, match="nearkin did not write it"):
        nearkin.load(tmp_path / "foreign")
    arrays, metadata = safetensors.read(saved[1])
    safetensors.write(tmp_path / "newer", arrays, metadata | {"version": "99"})
    with pytest.raises(FileFormatError, match="upgrade"):
        nearkin.load(tmp_path / "newer")
    evil = metadata | {"model": json.dumps({"class": "os.system", "state": {}})}
    safetensors.write(tmp_path / "evil", arrays, evil)
    with pytest.raises(FileFormatError, match="damaged"):
        nearkin.load(tmp_path / "evil")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        nearkin.load(tmp_path / "nowhere")


def test_a_single_changed_bit_is_noticed(saved, tmp_path):
    whole = saved[1].read_bytes()
    entry = whole.index(b"crc32")
    rng = np.random.default_rng(0)
    arrays = rng.integers(8, len(whole), 150)  # most bytes are those of arrays
    for place in {*range(8), *rng.integers(0, 2_000, 150), *arrays} - {*range(entry, entry + 5)}:
        changed = bytearray(whole)
        changed[place] ^= 1 << int(rng.integers(8))
        (tmp_path / "changed").write_bytes(changed)
        with pytest.raises(FileFormatError, match="changed"):
            nearkin.load(tmp_path / "changed")


def test_large_files_are_verified_on_request(saved, tmp_path, monkeypatch):
    model, path, X = saved
    changed = bytearray(path.read_bytes())
    changed[-1] ^= 1
    (tmp_path / "changed").write_bytes(changed)
    monkeypatch.setattr(safetensors, "_VERIFIED", 1_000)
    nearkin.load(tmp_path / "changed")
    with pytest.raises(FileFormatError, match="damaged: its bytes have the checksum"):
        nearkin.load(tmp_path / "changed", verify=True)
    np.testing.assert_array_equal(nearkin.load(path, verify=True).predict(X), model.predict(X))
    library.save_file({"a": np.ones(2)}, tmp_path / "foreign")
    with pytest.raises(FileFormatError, match="no checksum to verify"):
        safetensors.read(tmp_path / "foreign", verify=True)


@pytest.mark.parametrize(
    "change",
    [{"version": None}, {"version": "x"}, {"version": []}, {"model": None}, {"model": "3"},
     {"model": "[]"}, {"model": "null"}, {"model": "{}"}, {"model": 3}, {"model": "[" * 100_000},
     {"model": '{"class": "SLNE", "state": 3}'}, {"model": '{"class": [], "state": {}}'},
     {"model": '{"values": ["a"], "dtype": "<{5"}'}, {"model": '{"dict": [[[], 1]]}'}],
    ids=str,
)  # fmt: skip
def test_a_damaged_header_has_one_error(saved, tmp_path, change):
    arrays, metadata = safetensors.read(saved[1])
    changed = {key: value for key, value in (metadata | change).items() if value is not None}
    safetensors.write(tmp_path / "d", arrays, changed)
    with pytest.raises(FileFormatError, match=r"d is damaged \(.*\); save the model again"):
        nearkin.load(tmp_path / "d")


@pytest.mark.parametrize(
    ("version", "told"),
    [("1", "format 1, older than .*; it is too old: train the model again"),
     ("99", "format 99, newer than .*; upgrade nearkin")],
)  # fmt: skip
def test_other_formats_are_named(saved, tmp_path, version, told):
    arrays, metadata = safetensors.read(saved[1])
    safetensors.write(tmp_path / "m", arrays, metadata | {"version": version})
    with pytest.raises(FileFormatError, match=told):
        nearkin.load(tmp_path / "m")


@pytest.mark.parametrize(
    "header",
    [b'{"__metadata__": 3}', b'{"__metadata__": ["format"]}', b'{"a": 3}', b"[" * 100_000,
     b'{"a": {"dtype": "F32", "shape": [-1, -1e30], "data_offsets": [0, 4]}}',
     b'{"a": {"dtype": "F32", "shape": "ab", "data_offsets": [0, 4]}}',
     b'{"a": {"dtype": [], "shape": [1], "data_offsets": [0, 4]}}'],
    ids=lambda header: header[:40],
)  # fmt: skip
def test_a_damaged_outer_header_has_one_error(tmp_path, header):
    (tmp_path / "d").write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    with pytest.raises(FileFormatError):
        nearkin.load(tmp_path / "d")


@pytest.mark.parametrize(
    "labels",
    [np.array(["2024-02-29", "1969-12-31"], "M8[D]"), np.array(["2024-02-29T12", "1969"], "M8[ns]"),
     np.array([1, 2], "u2"), np.array([1, 2**63], "u8"), np.array([np.int64(3), 4], object)],
    ids=lambda labels: str(labels.dtype),
)  # fmt: skip
def test_labels_of_many_kinds_are_kept(tmp_path, labels):
    X, y = blobs(n=60, classes=2)
    model = SoftVotingKNN(None, vote="power").fit(X, y)
    model.classes_ = labels
    model.save(tmp_path / "m")
    again = nearkin.load(tmp_path / "m")
    assert again.classes_.dtype == labels.dtype
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("label", "found"),
    [(datetime.date(2024, 2, 29), "classes_ holds a date"), ((1, 2), "classes_ holds a tuple"),
     (b"owl", "classes_ holds a bytes")],
)  # fmt: skip
def test_labels_that_cannot_be_saved_are_named(tmp_path, label, found):
    X, y = blobs(n=60, classes=2)
    model = SoftVotingKNN(None, vote="power").fit(X, y)
    model.classes_ = np.empty(2, object)
    model.classes_[0], model.classes_[1] = "owl", label
    with pytest.raises(TypeError, match=f"{found}, .* cannot hold; numbers, text and numpy dates"):
        model.save(tmp_path / "m")
    assert not models.can_hold(model)
    with pytest.raises(TypeError, match="model=3 is a int; give a fitted model"):
        nearkin.save(3, tmp_path / "m")


def test_public_modules_are_reached_without_importing_them():
    public = {m.name for m in pkgutil.iter_modules(nearkin.__path__) if m.name[0] != "_"}
    assert public <= set(dir(nearkin))
    code = (
        "import sys, nearkin; assert 'numpy' not in sys.modules; nearkin.neighbors.nearest; "
        "assert 'nearkin.slne' not in sys.modules; nearkin.voting.votes.Vote; "
        "assert not hasattr(nearkin, 'nothing')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_failed_save_leaves_the_old_file(saved, tmp_path):
    model, path, _ = saved
    before = path.read_bytes()
    model.similarity_.strange_ = object()
    with pytest.raises(TypeError, match=r"similarity_.strange_ is a object"):
        model.save(path)
    assert path.read_bytes() == before
    with pytest.raises(FileNotFoundError):
        nearkin.save(nearkin.load(path), tmp_path / "no folder" / "m")
    assert os.listdir(tmp_path) == ["m.safetensors"]


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        ("similarity_", {"matrix_": np.eye(3, dtype=np.float32)}, "matrix_ of .* has shape"),
        ("similarity_", {"matrix_": np.ones((6, 2), np.float32)}, "matrix_ of .* has shape"),
        ("similarity_", {"matrix_": np.full((6, 6), np.nan, np.float32)}, "matrix_ contains NaN"),
        ("similarity_", {"matrix_": "a"}, "matrix_ of the model"),
        ("similarity_", {"t_": -1}, "t_=-1 must be a whole number >= 0"),
        ("similarity_", {"scale_": 0.0}, "scale_=0.0 must be a number > 0"),
        ("preprocess_", {"directions_": np.ones((6, 3), np.float32)}, "directions_ of the model"),
        ("preprocess_", {"mean_": np.ones(1, np.float32)}, "mean_ of the model"),
        ("preprocess_", {"whitening": "a"}, "whitening='a' must be a number"),
        ("vote_", {"sharpness": 0.0}, "sharpness=0.0 must be a number >= 1e-37"),
        ("", {"database_": np.ones((120, 2), np.float32)}, "class_means_ of the model has shape"),
        ("", {"database_": np.ones((120, 2), np.float32),
              "class_means_": np.ones((4, 2), np.float32)}, "matrix_ of similarity_ has shape"),
        ("", {"class_means_": np.ones((3, 6), np.float32)}, "class_means_ of the model has shape"),
        ("preprocess_", {"mean_": None}, "mean_ of the model"),
        ("", {"n_features_in_": None}, "n_features_in_=None must be a whole number"),
        ("", {"n_search_columns_": 7}, "n_search_columns_=7 must be a whole number <= 6"),
        ("", {"n_neighbors_": 0}, "n_neighbors_=0 must be a whole number"),
        ("", {"database_": np.ones((7, 6), np.float32)}, "labels_ of the model has shape"),
        ("", {"labels_": np.full(120, 10**6, np.int32)}, "labels_ must be places among 4 classes_"),
        ("", {"labels_": np.full(120, -1, np.int32)}, "labels_ must be places among 4 classes_"),
        ("", {"csls_bias_": np.ones(3, np.float32)}, "csls_bias_ of the model"),
        ("", {"vote_": 3}, "vote_=3 must be a Vote"),
        ("", {"n_neighbors": 0}, "n_neighbors=0 must be 'auto' or a whole number"),
        ("", {"predict": 3}, "SoftVotingKNN has no attribute 'predict'"),
    ],
)  # fmt: skip
def test_a_file_whose_parts_do_not_fit_together(saved, tmp_path, part, change, message):
    """The checksum is right: whoever wrote the file wrote it so."""
    model = saved[0]
    vars(getattr(model, part) if part else model).update(change)
    nearkin.save(model, tmp_path / "odd")
    with pytest.raises(FileFormatError, match=message):
        nearkin.load(tmp_path / "odd")


def test_what_is_changed_after_a_fit_is_checked(saved):
    model, _, X = saved
    for name in ("n_neighbors", "index"):
        value = getattr(model, name)
        with pytest.raises(ValueError, match=f"{name}=-1 must be"):
            model.set_params(**{name: -1}).predict(X)
        model.set_params(**{name: value})
    model.similarity_.matrix_ = np.eye(3, dtype=np.float32)
    for ask in (model.predict, model.kneighbors, lambda X: model.add(X, model.classes_[:1])):
        with pytest.raises(ValueError, match="matrix_ of similarity_ has shape"):
            ask(X[:1])
    model.preprocess_.set_params(power="a")
    with pytest.raises(ValueError, match="power='a' must be a number"):
        model.preprocess_.transform(X)


def test_the_length_of_text_is_not_taken_from_the_file():
    kept = {"values": ["a", "bcd"], "dtype": "<U100000000"}
    assert models.restore(kept, {}).dtype == "<U3"
    assert models.restore({"values": [], "dtype": "<U100000000"}, {}).nbytes == 0


def test_a_file_brings_its_search_index_along(tmp_path, monkeypatch):
    X, y = blobs(n=600, dims=20)
    model = SoftVotingKNN(None, preprocess=None, index="cells", vote="softmax").fit(X, y)
    model.save(tmp_path / "model.safetensors")
    again = nearkin.load(tmp_path / "model.safetensors")
    with monkeypatch.context() as patch:
        patch.setattr("nearkin.neighbors.cells.Cells.__init__", None)  # is not called
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    again.add(X[:1] + 100, [9])
    assert again.predict(X[:1] + 100) == [9]
    again.search_index_ = {}
    again._cached_index = None
    with pytest.raises(ValueError, match="search_index_ does not belong to 601 rows"):
        again.predict(X)
    assert again.set_params(index="exact").predict(X[:1] + 100) == [9]
