"""Ahead-of-time compilation covers what a real fit calls."""

import subprocess
import sys

CODE = """
import threading
import numpy as np
from numba.core.dispatcher import Dispatcher
from nearkin import SLNE, SoftVotingKNN
from nearkin.app.warmup import compile_all
from nearkin.learning import objective, superblocks, step
from nearkin.native import listed_scores, topk

compile_all()
assert threading.active_count() == 1, threading.enumerate()
functions = {(module.__name__, name): function
             for module in (objective, superblocks, step, listed_scores, topk)
             for name, function in vars(module).items() if isinstance(function, Dispatcher)}
before = {name: len(function.signatures) for name, function in functions.items()}
rng = np.random.default_rng(0)
for dims in (5, 300):
    X, y = rng.normal(size=(200, dims)), rng.integers(0, 3, 200)
    model = SoftVotingKNN(SLNE.paper(max_epochs=1, random_state=0)).fit(X, y)
    model.predict(X)
    model.similarity_.objective(X, y)
print([name for name, function in functions.items() if len(function.signatures) > before[name]])
"""


def test_a_fit_after_the_warmup_needs_no_other_specialisation():
    assert subprocess.check_output([sys.executable, "-c", CODE], text=True).strip() == "[]"
