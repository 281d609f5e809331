"""LLC from image bytes to unit vectors."""

import json
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import nearkin
from nearkin.images import LLC, DenseSIFT, ImageFolder, UnreadableImages
from nearkin.images.reading import read_grey
from nearkin.io.safetensors import FileFormatError
from pictures import encoded, textured

SMALL = {"n_words": 24, "pyramid": (1, 2)}


@pytest.fixture
def folder(picture_folder):
    return ImageFolder(picture_folder(classes=3, images=7))


@pytest.fixture
def fitted(folder):
    return LLC(**SMALL).fit(folder)


def test_the_papers_setting():
    images = [encoded(textured(seed, 200, 300), "JPEG") for seed in range(2)]
    features = LLC().fit(images).transform(images)
    assert features.shape == (2, 43_008)
    assert features.dtype == np.float32
    assert (features >= 0).all()
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1, atol=1e-5)


def test_against_the_definition(folder, fitted):
    grey = read_grey(folder.paths[0])
    patches = DenseSIFT().describe(grey)
    pooled = np.zeros((5, 24))
    for x, (cy, cx) in zip(patches.descriptors, patches.centres):
        if not x.any():
            continue
        nearest = np.argsort(((fitted.words_ - x) ** 2).sum(axis=1))[:5]
        shifted = fitted.words_[nearest].astype(float) - x
        C = shifted @ shifted.T
        code = np.linalg.solve(C + 1e-4 * np.trace(C) * np.eye(5), np.ones(5))
        cells = (0, 1 + 2 * int(cy >= grey.shape[0] / 2) + int(cx >= grey.shape[1] / 2))
        for cell in cells:
            pooled[cell, nearest] = np.maximum(pooled[cell, nearest], code / code.sum())
    expected = pooled.ravel() / np.linalg.norm(pooled)
    np.testing.assert_allclose(fitted.transform(folder[:1])[0], expected, atol=1e-3)


def test_same_bits_for_any_number_of_processes(folder, fitted, tmp_path):
    alone = fitted.transform(folder)
    assert (fitted.transform(folder, n_jobs=2) == alone).all()
    filed = fitted.transform(folder, out=tmp_path / "two.npy", n_jobs=2)
    assert isinstance(filed, np.memmap)
    assert (filed == alone).all()
    assert (fitted.transform(folder[5:9]) == alone[5:9]).all()


def test_fit_is_repeatable(folder, fitted):
    assert (LLC(**SMALL).fit(folder).words_ == fitted.words_).all()
    other = LLC(**SMALL, random_state=1).fit(folder)
    assert not np.array_equal(other.words_, fitted.words_)


def test_float16_file(folder, fitted, tmp_path):
    half = fitted.transform(folder, out=tmp_path / "half.npy", dtype="float16")
    assert half.dtype == np.float16
    np.testing.assert_allclose(half, fitted.transform(folder), atol=1e-3)


def test_blank_images_are_zero(fitted):
    blank = encoded(np.full((80, 80), 128, np.uint8))
    assert not fitted.transform([blank]).any()
    assert fitted.failed_ == []


def test_bad_images(folder, fitted, tmp_path):
    broken, tiny = tmp_path / "broken.jpg", encoded(textured(0, 10, 90))
    broken.write_bytes(b"no")
    images = [folder.paths[0], broken, tiny]
    with pytest.raises(UnreadableImages, match=r"broken\.jpg: not an image") as caught:
        fitted.transform(images)
    assert len(caught.value.failed) == 2
    with pytest.warns(UserWarning, match="2 of 3") as told:
        features = fitted.transform(images, on_error="skip")
    assert told[0].filename == __file__
    assert [bool(row.any()) for row in features] == [True, False, False]
    assert [name for name, _ in fitted.failed_] == [str(broken), f"<{len(tiny)} bytes>"]
    assert "smaller than the smallest patch" in fitted.failed_[1][1]


def test_fit_passes_over_bad_images_with_a_warning(folder, tmp_path):
    with pytest.warns(UserWarning, match="1 of 22 images could not be used"):
        llc = LLC(**SMALL).fit([*folder.paths, str(tmp_path / "missing.png")])
    assert llc.failed_ == [(str(tmp_path / "missing.png"), "No such file or directory")]
    with pytest.raises(UnreadableImages, match="2 of 2"):
        LLC(**SMALL).fit(["missing.png", b"junk"])


def test_the_codebook_is_part_of_the_settings(folder, fitted, tmp_path):
    fitted.transform(folder, folder=tmp_path / "work")
    other = LLC(**SMALL, random_state=1).fit(folder)
    with pytest.raises(ValueError, match="words differs"):
        other.transform(folder, folder=tmp_path / "work")


def test_is_a_transformer(folder, fitted):
    assert clone(fitted).get_params() == fitted.get_params()
    assert not hasattr(clone(fitted), "words_")
    json.dumps(fitted.get_params())
    again = pickle.loads(pickle.dumps(fitted))
    assert (again.transform(folder[:2]) == fitted.transform(folder[:2])).all()
    pipeline = make_pipeline(LLC(**SMALL), FunctionTransformer(np.sqrt))
    assert pipeline.fit_transform(folder, folder.labels).shape == (21, 120)


def test_parameters_as_json_gives_them_back(folder, fitted):
    params = json.loads(json.dumps(fitted.get_params()))
    again = LLC(**params)
    again.words_ = fitted.words_
    assert (again.transform(folder[:1]) == fitted.transform(folder[:1])).all()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_words": -1}, "n_words=-1"),
        ({"n_words": 10**6}, "n_words=1000000 needs at least as many descriptors"),
        ({"n_neighbors": 30}, "n_neighbors=30"),
        ({"pyramid": ()}, r"pyramid=\(\)"),
        ({"pyramid": (0, 2)}, "pyramid"),
        ({"pyramid": 3}, "pyramid=3"),
        ({"pyramid": (1.5,)}, "pyramid"),
        ({"step": 0}, "step=0"),
        ({"patch_sizes": (10,)}, "patch_sizes"),
        ({"beta": -1}, "beta=-1"),
        ({"beta": 10**30}, "beta=10+ must be a number > 0 and <="),
        ({"max_side": 0}, "max_side=0"),
        ({"max_side": 15}, "max_side=15 must be at least 16, the smallest of patch_sizes"),
        ({"max_side": 2.5}, r"max_side=2\.5 must be a whole number"),
    ],
)
def test_bad_settings(folder, params, message):
    with pytest.raises(ValueError, match=message):
        LLC(**{**SMALL, **params}).fit(folder)


def test_not_fitted(folder):
    with pytest.raises(NotFittedError):
        LLC().transform(folder)


def test_arrays_are_not_images(fitted):
    with pytest.raises(TypeError, match="images holds ndarray"):
        fitted.transform(np.zeros((3, 40, 40)))


def test_saved_and_loaded(fitted, folder, tmp_path):
    nearkin.save(fitted, tmp_path / "llc.safetensors")
    again = nearkin.load(tmp_path / "llc.safetensors")
    np.testing.assert_array_equal(again.transform(folder), fitted.transform(folder))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_neighbors": 25}, "n_neighbors=25 must be at most 24, the number of words"),
        ({"n_neighbors": True}, "n_neighbors=True must be a whole number"),
        ({"pyramid": (0,)}, r"pyramid=\(0,\) must be sides of grids"),
        ({"pyramid": ()}, r"pyramid=\(\) must be sides of grids"),
        ({"patch_sizes": (6,)}, r"patch_sizes=\(6,\) must be multiples of 4"),
        ({"words_": np.full((24, 128), np.nan, np.float32)}, "words_"),
        ({"words_": np.full((24, 128), 1e30, np.float32)}, "words_ must be float32 numbers"),
        ({"words_": np.empty((0, 128), np.float32)}, "words_ must be float32 numbers"),
        ({"words_": np.ones((24, 5), np.float32)}, r"words_ of the model has shape \(24, 5\)"),
        ({"words_": np.ones((24, 128))}, "words_ must be float32 numbers"),
    ],
)
def test_what_is_changed_after_a_fit_is_checked(fitted, folder, tmp_path, change, message):
    """By `set_params`, by hand, or in a file whose checksum is right."""
    vars(fitted).update(change)
    with pytest.raises(ValueError, match=message):
        fitted.transform(folder)
    with pytest.raises(ValueError, match=message):
        fitted.encode(folder.paths[:1])
    nearkin.save(fitted, tmp_path / "llc.safetensors")
    with pytest.raises(FileFormatError, match=message):
        nearkin.load(tmp_path / "llc.safetensors")
