import os

import numpy as np
import pytest

import nearkin
from nearkin import datasets
from nearkin.images import ImageFolder
from nearkin.io.files import check_file, read_lines
from nearkin.io.safetensors import read

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")


@pytest.mark.parametrize(
    "use",
    [
        nearkin.load, read, datasets.read, datasets.read_labels, ImageFolder.from_csv,
        lambda path: datasets.read_array(path, "X", ""), lambda path: read_lines(path, "a list"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv", ".parquet", ".safetensors"])
def test_pipes_are_refused(tmp_path, use, suffix):
    """To open one would wait for a writer."""
    os.mkfifo(tmp_path / f"pipe{suffix}")
    with pytest.raises(ValueError, match="is a pipe, not a regular file; give a"):
        use(tmp_path / f"pipe{suffix}")


def test_what_else_is_no_file(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path, error, message in (
        (tmp_path, ValueError, "is a folder, not a regular file"),
        ("/dev/null", ValueError, "is a device"),
        (tmp_path / "nothing", FileNotFoundError, "does not exist; give a list"),
        (tmp_path / "loop" / "x", OSError, "loop"),
        ("a\0b", FileNotFoundError, "no path"),
        ("/proc/self/mem", OSError, "error: '/proc/self/mem'"),
    ):
        with pytest.raises(error, match=message):
            check_file(path, "a list")


def test_lines_end_with_line_feeds_only(tmp_path):
    names = ["a b", "x\x0by", "p\u2028q", "", "last"]
    (tmp_path / "names.txt").write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    assert read_lines(tmp_path / "names.txt", "") == names
    (tmp_path / "names.txt").write_bytes(b"\xef\xbb\xbfa\r\nb")
    assert datasets.read_labels(tmp_path / "names.txt").tolist() == ["a", "b"]
    (tmp_path / "names.txt").write_bytes(b"")
    assert len(np.atleast_1d(read_lines(tmp_path / "names.txt", ""))) == 0
