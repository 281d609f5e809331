import numpy as np
import pytest
from scipy.special import softmax

from nearkin import SLNE
from nearkin.learning.presets import IMAGES
from nearkin.learning.sampling import AllPairs
from nearkin.reproduction import own_settings, tasks
from nearkin.voting.votes import probabilities
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


def test_slne_of_few_by_hand(task):
    """Votes of all rows, similarities to the fourth power, and of the class means."""
    found = own_settings.slne_of_few(task)
    task = task.whitened(0.5)
    settings = IMAGES["all"] | {
        "sampling": AllPairs(margin=0.005), "n_neighbors": len(task.X) - 1
    }  # fmt: skip
    M = SLNE.paper(tol=0, random_state=0, **settings).fit(task.X, task.y).matrix_
    scores, classes = task.Q @ M @ task.X.T, np.unique(task.y)
    means = np.stack([task.X[task.y == c].mean(axis=0) for c in classes])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    votes = np.stack(
        [(np.sign(scores) * scores**4)[:, task.y == c].sum(axis=1) for c in classes], axis=1
    )
    votes = probabilities(votes.astype(np.float32))
    spread = (task.X @ M @ means.T).std()
    shares = softmax(task.Q @ M @ means.T / (0.2 * spread), axis=1)
    guess = classes[(0.4 * votes + 0.6 * shares).argmax(axis=1)]
    by_class = [100 * (guess == task.truth)[task.truth == c].mean() for c in classes]
    assert found["top1"] == pytest.approx(np.mean(by_class))
