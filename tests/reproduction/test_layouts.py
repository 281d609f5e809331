import tarfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import image_sets as folders
from nearkin import RunFolder
from nearkin.reproduction import layouts
from nearkin.reproduction.setup import DataMissing


@pytest.fixture
def run(tmp_path):
    with RunFolder(tmp_path / "run").claim("test") as folder:
        yield folder


def counts(images, seed=0):
    """Training and test images of each class."""
    mask, labels = images.training(seed), images.folder.labels
    return Counter(labels[mask].tolist()), Counter(labels[~mask].tolist())


@pytest.mark.parametrize(
    ("quota", "sizes", "expected"),
    [
        (layouts.thirty, (31, 80, 5), (30, 30, 4)),
        # Caltech-256 has classes of 80 images, of which 20 are left to test.
        (layouts.eighty, (80, 99, 100, 827), (60, 79, 80, 80)),
        (layouts.seven_tenths, (100, 105, 3), (70, 74, 2)),
    ],
)
def test_images_of_a_class(quota, sizes, expected):
    assert tuple(map(quota, sizes)) == expected
    labels = np.repeat(np.arange(len(sizes)), sizes)
    labels = np.random.default_rng(1).permutation(labels)
    mask = layouts.some_of_each(labels, 0, quota)
    assert tuple(np.bincount(labels[mask])) == expected


def test_splits_are_random_and_repeatable():
    labels = np.repeat([0, 1], 50)
    first, again, other = (layouts.some_of_each(labels, s, layouts.thirty) for s in (0, 0, 1))
    assert (first == again).all()
    assert (first != other).any()


def test_an_archive_is_unpacked_once_and_anew_when_it_changes(tmp_path, run):
    folders.caltech101(tmp_path / "there", images=2)
    (tmp_path / "there" / "101_ObjectCategories").rename(tmp_path / "there" / "caltech101")

    def found():
        with tarfile.open(tmp_path / "caltech101.tar", "w") as tar:
            for name in sorted((tmp_path / "there").rglob("*.png")):
                tar.add(name, name.relative_to(tmp_path / "there"))
        return layouts.find("Caltech-101", tmp_path, run).folder

    first = found()
    times = [Path(path).stat().st_ctime_ns for path in first.paths]
    assert len(first) == 2 * len(folders.CALTECH)
    again = found()
    assert again.paths == first.paths
    assert [Path(path).stat().st_ctime_ns for path in again.paths] == times
    folders.picture(tmp_path / "there" / "caltech101" / "ibis" / "new.png", 1, 77)
    assert len(found()) == len(first) + 1


def test_caltech_256(tmp_path, run):
    folders.caltech256(tmp_path, images=24)
    learn, test = counts(layouts.find("Caltech-256", tmp_path, run))
    assert learn == {"001.ak47": 4, "002.american-flag": 4, "257.clutter": 4}
    assert set(test.values()) == {20}


def test_sun_names_nested_classes_by_their_path(tmp_path, run):
    folders.sun(tmp_path, images=10)
    (tmp_path / "SUN397" / "ClassName.txt").write_text("/a/abbey\n")
    learn, test = counts(layouts.find("SUN-397", tmp_path, run))
    assert learn == {"a/abbey": 7, "a/apartment_building/outdoor": 7, "z/zen_garden": 7}
    assert set(test.values()) == {3}


@pytest.mark.parametrize("part", ["test", "val"])
def test_ilsvrc_takes_the_official_split(tmp_path, part, run):
    folders.ilsvrc(tmp_path, images=4, tests=2, part=part)
    images = layouts.find("ILSVRC'10", tmp_path, run)
    mask = images.training(0)
    assert (mask == images.training(5)).all()
    assert all(("/train/" in path) == learns for path, learns in zip(images.folder.paths, mask))
    tested = {Path(p).name: c for p, c in zip(images.folder.paths, images.folder.labels)}
    # The ground truth has numbers, which the kit translates; the second image is of kind 1.
    assert tested[f"ILSVRC2010_{part}_00000002.JPEG"] == "n02124075"
    assert tested[f"ILSVRC2010_{part}_00000001.JPEG"] == "n01440764"


def test_ilsvrc_lists_that_do_not_fit_are_refused(tmp_path, run):
    folders.ilsvrc(tmp_path, images=2, tests=1)
    (tmp_path / "ILSVRC2010" / "test" / "ILSVRC2010_test_00000001.JPEG").unlink()
    with pytest.raises(ValueError, match=r"2 images, .* 3 lines"):
        layouts.find("ILSVRC'10", tmp_path, run)


@pytest.mark.parametrize("name", layouts.LAYOUTS)
def test_what_is_missing_is_named(name, tmp_path, run):
    with pytest.raises(DataMissing, match=f"not run: put .* at {tmp_path}"):
        layouts.find(name, tmp_path, run)


def test_a_small_part_for_quick_runs(tmp_path, run):
    folders.caltech101(tmp_path, images=4)
    images = layouts.find("Caltech-101", tmp_path, run)
    some = layouts.first_classes(images, ("ketch", "ibis"), classes=3, images=2)
    assert some.folder.labels.tolist() == ["BACKGROUND_Google"] * 2 + ["ibis"] * 2 + ["ketch"] * 2
