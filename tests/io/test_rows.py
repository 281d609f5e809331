import errno
import os
import subprocess
import sys

import numpy as np
import pytest

from nearkin.io.rows import create_rows, write_all, write_rows


def test_rows_in_any_order(tmp_path):
    path = tmp_path / "rows.npy"
    create_rows(path, (5, 3), "float16")
    whole = np.arange(15, dtype=np.float16).reshape(5, 3)
    for lo in (3, 0):
        write_rows(path, lo, whole[lo : lo + 3])
    np.testing.assert_array_equal(np.load(path), whole)
    write_all(path, (5, 3), np.float16, (whole[:2], whole[2:].astype(np.float32)))
    np.testing.assert_array_equal(np.load(path, mmap_mode="r"), whole)


def test_space_is_reserved_before_any_work_is_done(small_disk):
    with pytest.raises(OSError, match="No space left"):
        create_rows(small_disk / "rows.npy", (1_000, 1_000), "float32")


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="no reservations here")
def test_a_file_system_that_cannot_reserve_space(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    create_rows(tmp_path / "rows.npy", (5, 3), "float32")
    np.testing.assert_array_equal(np.load(tmp_path / "rows.npy"), np.zeros((5, 3)))


FULL = """
import sys, tempfile, warnings
import numpy as np
import nearkin
from nearkin.neighbors import nearest
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X, y = rng.normal(size=(3_000, 60)).astype(np.float32), rng.integers(0, 3, 3_000)
disk = sys.argv[1]
def in_the_folder_of_temporaries(model):
    tempfile.tempdir = disk
    model.fit(X, y)
for work in (
    lambda: nearest(X, 40, folder=disk + "/near"),
    lambda: nearkin.Preprocess(50).fit(X).transform(X, out=disk + "/z.npy"),
    lambda: nearkin.SLDE(n_members=1).fit(X, y, folder=disk + "/members"),
    lambda: nearkin.SLNE(max_epochs=1).fit(X, y, folder=disk + "/fit"),
    lambda: nearkin.SoftVotingKNN().fit(X, y, folder=disk + "/vote"),
    lambda: in_the_folder_of_temporaries(nearkin.SLDE(n_members=1)),
):
    try:
        work()
    except OSError as error:
        print(error)
"""


@pytest.mark.slow
def test_a_full_disk_ends_in_an_error_not_a_crash(small_disk):
    done = subprocess.run([sys.executable, "-c", FULL, small_disk], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 6, done.stdout
    assert all("the disk is full" in line for line in lines)
