"""Work in the background: leave-one-out and maps, against naive forms."""

import threading
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose

from nearkin import SLNE, SoftVotingKNN
from nearkin.serve import crossfit, maps
from nearkin.serve.review import ReviewTask
from nearkin.serve.side import Side
from nearkin.serve.tasks import BackgroundTask, Traffic
from serving import digits, fitted


def run(task):
    task.start(Traffic())
    task._thread.join(60)
    assert task.finished, task.error
    return task


def noisy():
    """A model of rows some of which have the label of another."""
    X, y = digits(0, 260)
    y[::9] = np.roll(y[::9], 1)
    learner = SLNE("softmax", n_neighbors=20, max_epochs=2, random_state=0)
    return SoftVotingKNN(learner, n_neighbors=12, random_state=0).fit(X, y)


def test_rows_are_reviewed_without_their_own_vote():
    task = run(ReviewTask(Side(noisy()), relearned=False))
    assert not task.progress()["relearned"]
    model = noisy()  # the side has made the other its own
    n, D, labels = len(model.labels_), model.database_, model.labels_
    naive, wrong = {}, {}
    inner = model.on_prepared_rows()
    for row in range(n):
        d = np.linalg.norm(D - D[row], axis=1)
        d[row] = np.inf
        near = np.argsort(d, kind="stable")[None, :12]
        p = inner.predict_proba(D[row : row + 1], near)[0]
        if p.argmax() != labels[row]:
            pair = int(labels[row]), int(p.argmax())
            naive[pair] = naive.get(pair, 0) + 1
            wrong[row] = p.max() - p[labels[row]]
    assert task.examined == n
    assert len(wrong) > 5
    assert dict(task.confusions()) == naive
    suspects = task.suspects()
    assert {one.row for one in suspects} == set(wrong)
    assert_allclose([one.margin for one in suspects], sorted(wrong.values())[::-1], atol=1e-5)
    pair, count = task.confusions()[0]
    assert len(task.confused(pair)) == count
    assert {labels[one.row] for one in task.suspects(pair[0])} == {pair[0]}


def test_rows_are_judged_by_models_that_have_not_seen_them():
    task = run(ReviewTask(Side(noisy())))
    assert task.progress()["relearned"]
    model = noisy()
    D, labels, parts = model.database_, model.labels_, crossfit.folds(model.labels_)
    of_class = [np.bincount(parts[labels == c], minlength=crossfit.FOLDS) for c in set(labels)]
    assert max(np.ptp(counts) for counts in of_class) <= 1
    wrong = {}
    for part in range(crossfit.FOLDS):
        rest = parts != part
        learner = SLNE(
            "softmax", n_neighbors=20, max_epochs=2, prepare=None,
            random_state=model.similarity_.random_state,
        )  # fmt: skip
        learner.fit(D[rest], labels[rest])
        again = SoftVotingKNN(
            learner, preprocess=None, n_neighbors=12, vote=model.vote_, random_state=0
        ).fit(D[rest], labels[rest])
        for row in np.flatnonzero(~rest):
            p = again.predict_proba(D[row : row + 1])[0]
            if p.argmax() != labels[row]:
                wrong[row] = p.max() - p[labels[row]]
    assert task.examined == len(labels)
    suspects = task.suspects()
    assert {one.row for one in suspects} == set(wrong)
    assert_allclose([one.margin for one in suspects], sorted(wrong.values())[::-1], atol=1e-5)


def memorised():
    """Few rows of many columns: the similarity knows every label by heart."""
    rng = np.random.default_rng(0)
    X, y = digits(0, 200)
    X = np.hstack([X / 16, rng.normal(size=(200, 400)).astype(np.float32) / 2])
    planted = [3, 50, 101, 160]
    y = y.copy()
    y[planted] = np.roll(y[planted], 1)
    learner = SLNE("softmax", n_neighbors=50, max_epochs=15, random_state=0)
    return SoftVotingKNN(learner, n_neighbors=20, vote="softmax", random_state=0).fit(X, y)


def test_what_the_similarity_knows_by_heart_is_found_by_models_that_do_not():
    by_heart = run(ReviewTask(Side(memorised()), relearned=False))
    found = run(ReviewTask(Side(memorised())))
    assert by_heart.wrong < 5
    assert found.wrong > 20


def test_what_is_not_learned_again():
    assert crossfit.worthwhile(noisy())
    X, y = digits(0, 60)
    assert not crossfit.worthwhile(SoftVotingKNN(None, n_neighbors=5).fit(X, y))
    pairs = SoftVotingKNN(noisy().similarity_, n_neighbors=5, preprocess=None, vote="top")
    assert not crossfit.worthwhile(pairs.fit(X[:6], y[:6]))


def test_classes_of_one_row_are_reviewed_too():
    X, y = digits(0, 100)
    y = y.astype(object)
    y[0] = "alone"
    learner = SLNE(n_neighbors=10, max_epochs=1, random_state=0)
    model = SoftVotingKNN(learner, n_neighbors=5, vote="softmax", random_state=0).fit(X, y)
    task = run(ReviewTask(Side(model)))
    assert task.relearned
    assert 0 in {one.row for one in task.suspects()}


def test_planted_wrong_labels_come_first():
    X, y = digits(0, 300)
    y, planted = y.copy(), [10, 77, 140, 201]
    y[planted] = np.roll(y[planted], 1)
    model = SoftVotingKNN(None, n_neighbors=8, vote="softmax").fit(X, y)
    found = run(ReviewTask(Side(model))).suspects()[:8]
    assert {one.row for one in found} >= {
        row for row in planted if y[row] != digits(0, 300)[1][row]
    }


def test_pca_is_that_of_numpy(monkeypatch):
    monkeypatch.setattr(maps, "find_spec", lambda name: None)
    model = fitted(0, 200)
    task = run(maps.MapTask({"learned": Side(model)}))
    assert task.method == "PCA"
    assert task.rows.tolist() == list(range(200))
    M = model.similarity_.matrix_.astype(float)
    values, vectors = np.linalg.eigh((M + M.T) / 2)
    compared = model.database_ @ (vectors * np.sqrt(np.maximum(values, 0)))
    centred = compared - compared.mean(axis=0)
    u, s, _ = np.linalg.svd(centred, full_matrices=False)
    naive, found = (u * s)[:, :2], task.maps["PCA"]["learned"].astype(float)
    found = (found - found.mean(axis=0)) * (
        np.ptp(naive, axis=0).max() / np.ptp(found, axis=0).max()
    )
    for column in range(2):
        sign = np.sign(naive[:, column] @ found[:, column])
        assert_allclose(sign * found[:, column], naive[:, column], atol=2e-3 * s[0])


def test_maps_are_of_a_sample(monkeypatch):
    monkeypatch.setattr(maps, "ROWS", 50)
    monkeypatch.setattr(maps, "find_spec", lambda name: None)
    task = run(maps.MapTask({"learned": Side(fitted(0, 200))}))
    assert len(task.rows) == 50
    assert task.maps["PCA"]["learned"].shape == (50, 2)


@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (5, 1), (1, 5), (3, 2)])
def test_maps_of_hardly_anything(shape):
    flat = maps.plane(maps.pca(np.random.default_rng(0).normal(size=shape).astype(np.float32)))
    assert flat.shape == (shape[0], 2)
    assert np.isfinite(flat).all()


@pytest.mark.slow
def test_umap_takes_the_place_of_pca():
    pytest.importorskip("umap")
    task = maps.MapTask({"learned": Side(fitted(0, 200))})
    task.start(Traffic())
    task._thread.join(300)
    assert task.finished, task.error
    assert task.method == "UMAP"
    assert task.maps["UMAP"]["learned"].shape == (200, 2)


class Counting(BackgroundTask):
    def __init__(self):
        super().__init__()
        self.steps_taken = 0

    def steps(self):
        for i in range(10_000):
            self.steps_taken = i
            time.sleep(0.001)
            yield i / 10_000


def test_a_task_gives_way_and_stops():
    task, traffic = Counting(), Traffic()
    traffic.active = 1
    task.patience = 60
    task.start(traffic)
    task.start(traffic)  # begins once
    time.sleep(0.3)
    assert task.steps_taken == 0
    traffic.active = 0
    while task.steps_taken < 5:
        time.sleep(0.005)
    task.stop()
    assert not task.finished
    assert threading.active_count() < 50
    assert task.progress()["state"] == "running"


def test_a_task_that_fails_says_why():
    class Failing(BackgroundTask):
        def steps(self):
            yield 0.5
            raise MemoryError("not enough")

    task = Failing()
    task.start(Traffic())
    task._thread.join(10)
    assert task.progress() == {"state": "failed", "done": 0.5, "error": "MemoryError: not enough"}
