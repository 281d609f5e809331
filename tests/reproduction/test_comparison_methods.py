import numpy as np
import pytest

from nearkin.app.comparison import compare
from nearkin.reproduction.comparison_methods import METHODS
from nearkin.reproduction.linear_svms import sgd_svm
from samples import blobs


@pytest.mark.slow
def test_every_method_beats_chance_and_reports_what_it_selected():
    X, y = blobs(n=400, dims=6, spread=0.8)
    methods = METHODS | {"SGD": sgd_svm}
    outcomes = compare(methods, X[:300], y[:300], X[300:], y[300:])
    chance = np.bincount(y[300:]).max() / 100
    for outcome in outcomes:
        assert chance + 0.2 < outcome.top1 <= outcome.top3 <= 1, outcome
        assert outcome.settings, outcome
    settings = {outcome.name: outcome.settings for outcome in outcomes}
    assert settings["SL-NE"]["similarity"].startswith("SLNE(")
    assert settings["SL-DE"]["vote"]
    assert settings["SGD"]["alpha"] > 0
