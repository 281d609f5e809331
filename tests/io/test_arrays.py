import zipfile

import numpy as np
import pytest
from numpy.lib import format as npy

from arrays import header
from nearkin.io.arrays import archive_headers, map_array, read_archive
from nearkin.validation import memory


@pytest.fixture
def no_large_arrays(monkeypatch):
    """Whatever would allocate by what a header says fails."""

    def fail(*_, **__):
        raise AssertionError("an array was allocated")

    monkeypatch.setattr(npy, "read_array", fail)


CLAIMS = [
    ("<U100000000", (1,)), ("<U100000000", (0,)), ("<f4", (10**9, 10**3)), ("<f4", (-1, 4)),
    ("|O", (1,)), ("<f4", (10**30,)), ("<U100000000", ()),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "shape"), CLAIMS)
def test_what_a_header_claims_is_checked_first(tmp_path, no_large_arrays, dtype, shape):
    data = header(dtype, shape) + bytes(40)
    (tmp_path / "a.npy").write_bytes(data)
    with pytest.raises(ValueError, match=r"a.npy is not a whole .npy file"):
        map_array(tmp_path / "a.npy")
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("y.npy", data)
    for use in (archive_headers, lambda path: read_archive(path, ["y"])):
        with pytest.raises(ValueError, match=r"a.npz cannot be used"):
            use(tmp_path / "a.npz")


def test_bombs_are_refused(tmp_path, no_large_arrays):
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", header("<f4", (25 << 20,)) + bytes(100 << 20))
    for use in (archive_headers, lambda path: read_archive(path, ["X"])):
        with pytest.raises(ValueError, match=r"X is 104,857,728 bytes in .* compressed so well"):
            use(tmp_path / "a.npz")


def test_arrays_that_do_not_fit_are_not_read(tmp_path, monkeypatch):
    np.savez(tmp_path / "a.npz", X=np.zeros(1 << 20), y=np.zeros(3))
    monkeypatch.setattr(memory, "available", lambda: 1 << 20)
    assert archive_headers(tmp_path / "a.npz")["X"].shape == (1 << 20,)
    assert list(read_archive(tmp_path / "a.npz", ["y", "z"])) == ["y"]
    with pytest.raises(MemoryError, match=r"a.npz needs about 8 MiB .* give the array as an .npy"):
        read_archive(tmp_path / "a.npz", ["X"])


def test_arrays_of_all_kinds(tmp_path):
    arrays = {
        "empty": np.zeros((0, 5), np.float32), "text": np.array(["a", "ëb"]), "one": np.array(3),
        "columns": np.asfortranarray(np.arange(6).reshape(2, 3)), "none": np.array([], "U3"),
    }  # fmt: skip
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "a.npz", **arrays)
        for name, array in read_archive(tmp_path / "a.npz", arrays).items():
            np.testing.assert_array_equal(array, arrays[name])
            assert archive_headers(tmp_path / "a.npz")[name].dtype == array.dtype
    for name in ("text", "columns"):
        np.save(tmp_path / "a.npy", arrays[name])
        np.testing.assert_array_equal(map_array(tmp_path / "a.npy"), arrays[name])
