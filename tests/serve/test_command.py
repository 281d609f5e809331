"""`nearkin serve` as a process: what it says, and how it ends."""

import os
import signal
import socket
import subprocess
import sys

import httpx
import numpy as np
import pytest

from commands import QUIET, answer, nearkin
from serving import digits, started


@pytest.mark.parametrize(("number", "code", "said"), [
    (signal.SIGINT, 130, "interrupted; requests that had begun were answered\n"),
    (signal.SIGTERM, 143, ""),
])  # fmt: skip
def test_a_signal_ends_it_gracefully(model_file, number, code, said):
    token = "a-token-of-the-environment"
    process, facts = started(model_file, NEARKIN_TOKEN=token)
    assert facts["rows"] == 300
    assert "--train" in facts["note"]
    with httpx.Client(base_url=facts["url"]) as client:
        assert client.get("/v1/model").status_code == 401
        answer = client.get("/v1/model", headers={"Authorization": f"Bearer {token}"})
        assert answer.json()["rows"] == 300
        assert "server" not in answer.headers
        process.send_signal(number)  # while a connection is kept open
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (code, said)


def test_check_says_what_would_be_served(model_file, tmp_path):
    X, y = digits(0, 300)
    np.savez(tmp_path / "train.npz", X=X, y=y)
    facts = answer("serve", model_file, "--train", tmp_path / "train.npz", "--check", "--port", 0)
    assert facts["similarities"] == ["raw", "learned"]
    assert facts["url"].startswith("http://127.0.0.1:")
    assert facts["classes"] == 10


def test_a_port_in_use_is_named(model_file):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = nearkin("serve", model_file, "--port", port)
    assert ended.returncode == 1
    assert f"--port {port}" in ended.stderr
    assert "another --port" in ended.stderr


def test_other_rows_than_those_of_the_model_are_refused(model_file, tmp_path):
    X, y = digits(300, 600)
    np.savez(tmp_path / "train.npz", X=X, y=y)
    ended = nearkin("serve", model_file, "--train", tmp_path / "train.npz", "--port", 0)
    assert ended.returncode == 1
    assert "--train" in ended.stderr


def test_rows_without_labels_are_known_again_by_their_values(model_file, tmp_path):
    X, _ = digits(0, 300)
    np.save(tmp_path / "rows.npy", X)
    known = answer("serve", model_file, "--train", tmp_path / "rows.npy", "--check", "--port", 0)
    assert known["similarities"] == ["raw", "learned"]
    for wrong in (X[::-1], X[:, ::-1], X[:200], X[:, :10], digits(300, 600)[0]):
        np.save(tmp_path / "other.npy", wrong)
        ended = nearkin("serve", model_file, "--train", tmp_path / "other.npy", "--port", 0)
        assert ended.returncode == 1
        assert "rows that are not the 300" in ended.stderr


def test_without_the_extra_its_name_is_told(model_file, tmp_path):
    (tmp_path / "fastapi.py").write_text("raise ImportError('hidden', name='fastapi')")
    paths = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    ended = subprocess.run(
        [sys.executable, "-m", "nearkin", "serve", model_file], capture_output=True, text=True,
        env=QUIET | {"PYTHONPATH": paths},
    )  # fmt: skip
    assert ended.returncode == 1
    assert "pip install 'nearkin[serve]'" in ended.stderr
