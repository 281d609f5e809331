"""Models to serve, and servers on free ports of this machine."""

import json
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import httpx
import numpy as np
import uvicorn
from sklearn.datasets import load_digits

import nearkin
from commands import NAMES, QUIET
from nearkin import SLNE, SoftVotingKNN
from nearkin.app.finished_run import TrainedModel
from nearkin.serve.engine import open_engine
from nearkin.serve.server import bind, url_of
from nearkin.serve.service import create_app


def digits(start, stop):
    X, y = load_digits(return_X_y=True)
    return X[start:stop].astype(np.float32), NAMES[y[start:stop]]


def fitted(start=0, stop=300, **options):
    options = {"n_neighbors": 12, "random_state": 0} | options
    learner = SLNE("softmax", n_neighbors=20, max_epochs=2, random_state=0)
    return SoftVotingKNN(learner, **options).fit(*digits(start, stop))


def engine_of(path, given=None, **trained):
    return open_engine(TrainedModel(nearkin.load(path), **trained), given)


class Live:
    """A service in a thread of this process, and a client of it."""

    def __init__(self, holder, **options):
        self.socket = bind("127.0.0.1", 0)
        self.url = url_of(self.socket, "127.0.0.1").rstrip("/")
        self.app = create_app(holder, **options)
        self.state = self.app.state.service
        config = uvicorn.Config(self.app, log_level="error", lifespan="on", ws="none")
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, args=([self.socket],), daemon=True)
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)
        self.client = httpx.Client(base_url=self.url, timeout=60)

    def post(self, path, **body):
        return self.client.post(path, json=body)

    def ok(self, path, **body):
        answer = self.post(path, **body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def get(self, path, **options):
        return self.client.get(path, **options)

    def stop(self):
        self.client.close()
        self.server.should_exit = True
        self.thread.join(30)
        assert not self.thread.is_alive()
        self.socket.close()


@contextmanager
def living(holder, **options):
    live = Live(holder, **options)
    try:
        yield live
    finally:
        live.stop()


def started(*arguments, **environment):
    """`nearkin serve` as a process, and what it says first."""
    process = subprocess.Popen(
        [sys.executable, "-m", "nearkin", "serve", *map(str, arguments), "--port", "0", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=QUIET | environment,
        # A shell may have started us with SIGINT ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    line = process.stdout.readline()
    assert line, process.stderr.read()
    return process, json.loads(line)
