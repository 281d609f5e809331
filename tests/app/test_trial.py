"""Whether a learned similarity would help: what is chosen, measured and advised."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.preprocessing import normalize

from nearkin import SLNE, Adapter, Softmax
from nearkin.app import advice, trial
from nearkin.app.store_graph import DotGraph
from nearkin.app.trial import RERANKED, WHOLE, Method, Trial, graph_name
from nearkin.learning.holdout import held_out
from nearkin.metrics import paired_bootstrap
from nearkin.selection.candidates import INDEX_PREPARATIONS
from samples import blobs

RNG = np.random.default_rng(0)


def test_the_preparation_is_the_best_on_held_out_rows():
    X, y = blobs(n=500, dims=12, classes=30, spread=0.5, seed=1)
    X = normalize(X).astype(np.float32)
    held = held_out(y, trial.HELD_OUT, np.random.default_rng(3))

    def precision(prepare):
        model = SLNE(Softmax(0.2), prepare=prepare, n_neighbors=300, random_state=3)
        scores = model.fit(X[~held], y[~held]).similarity(X[held], X[~held])
        return (y[~held][np.argsort(-scores, axis=1)[:, :10]] == y[held][:, None]).mean()

    values = [precision(prepare) for prepare in INDEX_PREPARATIONS]
    assert np.ptp(values) > 0.01
    chosen = trial.learn_for_index(X, y, seed=3).prepare
    assert repr(chosen) == repr(INDEX_PREPARATIONS[int(np.argmax(values))])


def test_a_graph_that_sees_every_row_is_exact():
    X = normalize(RNG.normal(size=(200, 6))).astype(np.float32)
    found = DotGraph(X).search(X[:20] * 3, 10, ef=200)
    assert (found == np.argsort(-X[:20] @ X.T, axis=1, kind="stable")[:, :10]).all()


def made(gains, graphs=(0.0, 0.0), recall=0.0, kind="labels", learned=True):
    """A trial in which methods gain so much in each of two hundred queries, but for noise."""
    noise = 0.05 * RNG.normal(size=200)
    raw = {name: np.full(200, 0.5) for name in ("precision@10", "nDCG@10", "recall@100")}
    methods = [Method("raw cosine", raw, 1.0)]
    names = (RERANKED, WHOLE, *map(graph_name, trial.EFS))
    losses = (0.0, 0.0, *graphs)
    for name, gain, loss in zip(names, (*gains, gains[1], gains[1]), losses):
        values = {key: raw[key] + gain - loss + noise - noise.mean() for key in raw}
        values["recall@100"] = raw["recall@100"] + recall + noise - noise.mean()
        found = {key: paired_bootstrap(raw[key], values[key]) for key in raw}
        methods.append(Method(name, values, 1.0, None, found))
    adapter = Adapter(np.eye(2), np.zeros(2), np.zeros(2))
    facts = {"documents": 9, "test_queries": 200, "learned_from": 9}
    return Trial(kind, adapter, learned, 1.0, facts, methods)


@pytest.mark.parametrize(
    ("given", "verdict", "says"),
    [
        ({"gains": (0.1, 0.1)}, advice.DEPLOY, "ef 40 is enough"),
        ({"gains": (0.1, 0.1), "graphs": (0.05, 0.001)}, advice.DEPLOY, "ef 100 is enough"),
        ({"gains": (0.1, 0.1), "graphs": (0.2, 0.05)}, advice.DEPLOY, "loses 0.0500 of it at ef"),
        ({"gains": (0.1, -0.1)}, advice.RERANK, "over the whole index the gain is -0.1000"),
        ({"gains": (0.1, 0.1), "recall": -0.1}, advice.RERANK, "loses relevant vectors"),
        ({"gains": (0.001, 0.002)}, advice.NO, "may be chance"),
        ({"gains": (-0.1, -0.1)}, advice.NO, "changes by -0.1000"),
        ({"gains": (0.0, 0.0), "learned": False, "kind": "pairs"}, advice.NO, "the identity"),
    ],
)
def test_advice(given, verdict, says):
    found = advice.advise(made(**given))
    assert found[0] == verdict
    assert says in found[1]


def test_what_is_shown_are_means_and_gains():
    shown = advice.table(made((0.1, 0.2)))
    assert shown[0][:2] == ["raw cosine", "0.5000"]
    assert shown[2][1] == "0.7000"
    assert shown[2][4] == "+0.2000"
    lines = advice.text(made((0.1, 0.2))).splitlines()
    assert lines[2].split() == " ".join(advice.HEADER).split()


def test_rows_are_ranked_again_as_a_whole_index_would():
    X, y = blobs(n=90, dims=5, classes=3, spread=0.6, seed=0)
    result = trial.try_labels(X, y)
    # Of fewer than a hundred documents, the top hundred are the whole index.
    for name, values in result[WHOLE].values.items():
        assert_allclose(result[RERANKED].values[name], values, atol=1e-6)
    assert result.facts["documents"] + result.facts["test_queries"] == 90
