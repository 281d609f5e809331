"""Real dask processes, started from their own command lines on this machine."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from nearkin import SLDE, SLNE
from nearkin.app.cluster import connected
from samples import blobs

pytest.importorskip("distributed")
pytestmark = pytest.mark.slow

DASK = [sys.executable, "-m", "dask"]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start(*arguments):
    paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.Popen(
        [*DASK, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
    )  # fmt: skip


@pytest.fixture
def cluster():
    """Address of a scheduler, and the processes of its two workers."""
    address = f"tcp://127.0.0.1:{free_port()}"
    port = address.rsplit(":", 1)[1]
    host = ("--host", "127.0.0.1", "--no-dashboard")
    scheduler = start("scheduler", *host, "--port", port)
    one = ("--nthreads", "1", "--no-nanny")
    workers = [start("worker", address, *host, *one) for _ in range(2)]
    try:
        _wait_for_workers(address, 2)
        yield address, workers
    finally:
        for process in (*workers, scheduler):
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait(timeout=20)


def _wait_for_workers(address, n, seconds=60):
    from distributed import Client

    deadline = time.monotonic() + seconds
    while True:
        with (
            contextlib.suppress(OSError),
            Client(address, timeout=5, set_as_default=False) as client,
        ):
            client.wait_for_workers(n, timeout=max(1, deadline - time.monotonic()))
            return
        assert time.monotonic() < deadline, "the cluster did not come up"
        time.sleep(0.2)


def test_equal_to_the_local_result_and_survives_a_killed_worker(cluster, tmp_path):
    address, workers = cluster
    X, y = blobs(n=300, dims=12)
    settings = {"n_members": 6, "n_components": 2, "random_state": 0}
    local = SLDE(SLNE.paper(max_epochs=3, tol=0), **settings).fit(X, y)
    with connected(address):
        remote = SLDE(SLNE.paper(max_epochs=3, tol=0), **settings).fit(X, y)
    np.testing.assert_array_equal(local.matrix_, remote.matrix_)

    slow = SLNE.paper(max_epochs=400, tol=0)
    expected = SLDE(slow, **settings).fit(X, y)
    killer = subprocess.Popen([
        sys.executable, "-c",
        "import glob, os, sys, time\n"
        f"while not glob.glob({str(tmp_path / 'member-*')!r}): time.sleep(0.01)\n"
        f"os.kill({workers[0].pid}, {int(signal.SIGKILL)})",
    ])  # fmt: skip
    with connected(address):
        survived = SLDE(slow, **settings).fit(X, y, folder=tmp_path)
    assert killer.wait(timeout=30) == 0
    assert workers[0].wait(timeout=10) == -signal.SIGKILL
    np.testing.assert_array_equal(expected.matrix_, survived.matrix_)


def test_an_unreachable_scheduler_is_said_within_seconds():
    began = time.monotonic()
    nobody = connected(f"tcp://127.0.0.1:{free_port()}", timeout=2)
    with pytest.raises(ConnectionError, match="no dask scheduler answers"):
        nobody.__enter__()
    assert time.monotonic() - began < 15


def test_ray_gives_the_same(tmp_path):
    ray = pytest.importorskip("ray", reason="needs the extra: pip install 'nearkin[ray]'")
    import joblib
    from ray.util.joblib import register_ray

    ray.init(num_cpus=2, include_dashboard=False)
    register_ray()
    X, y = blobs(n=200, dims=8)
    try:
        with joblib.parallel_config(backend="ray", n_jobs=2):
            remote = SLDE(SLNE.paper(max_epochs=2), n_members=2, random_state=0).fit(X, y)
    finally:
        ray.shutdown()
    local = SLDE(SLNE.paper(max_epochs=2), n_members=2, random_state=0).fit(X, y)
    np.testing.assert_array_equal(local.matrix_, remote.matrix_)
