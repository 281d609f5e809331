import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from nearkin.io.atomic import atomic_write, is_temporary


def test_a_failed_write_leaves_the_old_file(tmp_path):
    target = tmp_path / "model"
    target.write_text("old")
    with pytest.raises(TypeError), atomic_write(target) as temporary:
        temporary.write_text(3)
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["model"]


def test_targets_that_cannot_be_written(tmp_path):
    with pytest.raises(FileExistsError, match="not a regular file"), atomic_write(tmp_path):
        pass
    with pytest.raises(FileNotFoundError, match="make it first"), atomic_write(tmp_path / "a/b"):
        pass
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(FileExistsError, match="link exists and"), atomic_write(tmp_path / "link"):
        pass
    with pytest.raises(OSError, match="File name too long"), atomic_write(tmp_path / ("x" * 300)):
        pytest.fail("work was done for it")
    with pytest.raises(OSError, match="'/proc/self/a'"), atomic_write("/proc/self/a"):
        pass


def test_an_error_of_the_writer_is_not_taken_for_a_full_disk(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"^no such row$"), atomic_write(tmp_path / "a"):
        raise FileNotFoundError("no such row")


def test_what_others_left_is_never_guessed_at(tmp_path):
    others = [".model.1.part.npy", ".my.partners.db", f".nearkin-{'0' * 32}.tmp.npy"]
    for name in others:
        (tmp_path / name).write_text("mine")
    with atomic_write(tmp_path / "model.npy") as temporary:
        np.save(temporary, np.ones(3))
    assert sorted(os.listdir(tmp_path)) == sorted([*others, "model.npy"])


def test_names_are_random_and_existing_links_are_not_followed(tmp_path, monkeypatch):
    (tmp_path / "target").write_text("mine")
    monkeypatch.setattr("secrets.token_hex", lambda n: "0" * 2 * n)  # an attacker who guesses it
    (tmp_path / f".nearkin-{'0' * 32}.tmp.npy").symlink_to(tmp_path / "target")
    with pytest.raises(FileExistsError), atomic_write(tmp_path / "a.npy"):
        pytest.fail("a link was followed")
    assert (tmp_path / "target").read_text() == "mine"
    monkeypatch.undo()
    names = set()
    for _ in range(20):
        with atomic_write(tmp_path / "a.npy") as temporary:
            names.add(temporary.name)
            assert is_temporary(temporary.name)
    assert len(names) == 20


def test_threads_that_write_to_one_path_all_succeed(tmp_path):
    errors = []

    def save(n):
        try:
            for _ in range(20):
                with atomic_write(tmp_path / "model") as temporary:
                    temporary.write_text(str(n) * 1_000)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=save, args=[n]) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(set((tmp_path / "model").read_text())) == 1
    assert os.listdir(tmp_path) == ["model"]


def test_processes_that_write_to_one_path_all_succeed(tmp_path):
    code = (
        "import sys; from nearkin.io.atomic import atomic_write\n"
        "for _ in range(50):\n"
        "    with atomic_write(sys.argv[1]) as t: t.write_text(sys.argv[2] * 1_000)\n"
    )
    command = [sys.executable, "-c", code, tmp_path / "model"]
    processes = [subprocess.Popen([*command, str(n)]) for n in range(4)]
    assert [process.wait() for process in processes] == [0] * 4
    assert len(set((tmp_path / "model").read_text())) == 1
    assert os.listdir(tmp_path) == ["model"]
