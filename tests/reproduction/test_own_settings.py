import numpy as np
import pytest

from nearkin.reproduction import own_settings, tasks
from samples import blobs


@pytest.fixture
def task():
    """Few rows, of which some directions vary far more than others."""
    X, y = blobs(n=120, dims=8, spread=1.5)
    X = X * np.linspace(3, 0.3, 8, dtype=np.float32)
    variances = X[:60].var(axis=0)
    return tasks.Task("t", X[:60], y[:60], X[60:], y[60:], variances, (X[:60], X[60:]))


def test_parts_are_training_rows_and_held_out_rows_are_not_learned_from(task):
    found = list(own_settings.parts(task, 3))
    assert len(found) == 3
    held = set()
    for part in found:
        rows = {tuple(row) for row in part.X} | {tuple(row) for row in part.Q}
        assert rows == {tuple(row) for row in task.X}
        assert not {tuple(row) for row in part.X} & {tuple(row) for row in part.Q}
        assert part.retrieval is None
        held.add(part.Q.tobytes())
    assert len(held) == 3


def test_whitening_is_the_best_on_held_out_rows_and_test_rows_are_read_once(task):
    asked = []

    def accuracy(space):
        asked.append(len(space.X))
        return float((space.Q[:, 0] > 0).mean()) if len(space.X) < len(task.X) else space.key

    means = {}
    for exponent in own_settings.WHITENINGS:
        space = task.whitened(exponent)
        means[space.key] = np.mean(
            [(part.Q[:, 0] > 0).mean() for part in own_settings.parts(space, 4)]
        )
    assert own_settings.of_few(task, 4, accuracy) == max(means, key=means.get)
    assert asked.count(len(task.X)) == 1


def test_slne_of_few_chooses_among_whitenings(task):
    found = own_settings.slne_of_few(task, 2)
    assert found["top1"] > 100 / len(np.unique(task.y)) + 20
    assert "on held-out rows" in found["note"]
    again = own_settings.slne_of_few(task, 2)
    assert found["top1"] == again["top1"]
