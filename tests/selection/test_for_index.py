"""Choosing what folds into the query."""

import numpy as np
import pytest

from nearkin import Selection, SoftVotingKNN
from nearkin.selection.scoring import classification
from samples import blobs


@pytest.mark.parametrize("offset", [0.0, 3.0])
def test_what_is_chosen_folds_into_the_query(offset):
    X, y = blobs(n=400, dims=10, spread=1.2)
    X, Q, y, truth = X[:300] + offset, X[300:] + offset, y[:300], y[300:]
    options = Selection("precision", for_index=True)
    model = SoftVotingKNN(selection=options, random_state=0).fit(X, y)
    adapter = model.adapter(raw=True)
    stored = X if adapter.metric == "dot" else X / np.linalg.norm(X, axis=1, keepdims=True)
    found = np.argsort(-adapter.transform(Q) @ stored.T, axis=1)[:, :10]
    raw = np.argsort(-_unit(Q) @ _unit(X).T, axis=1)[:, :10]
    precision, before = ((y[lists] == truth[:, None]).mean() for lists in (found, raw))
    assert precision >= before - 0.01
    assert all("power" not in trial["preprocess"] for trial in model.trials_)
    assert all("Fourier" not in trial["preprocess"] for trial in model.trials_)


def _unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_log_loss_and_error_count_alike():
    class Chosen:
        log_loss, accuracy = 0.4, 0.9

    class Ballot:
        truth = np.zeros(100)

    assert classification(Ballot, Chosen) == pytest.approx(-np.log(np.sqrt(0.4 * 0.1)))
    Chosen.accuracy = 1.0
    assert classification(Ballot, Chosen) == pytest.approx(-np.log(np.sqrt(0.4 * 0.005)))
