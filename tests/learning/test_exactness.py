"""Block steps equal Algorithm 1 written naively."""

import itertools

import numpy as np
import pytest

import oracle
from agreement import agree
from nearkin import SLNE, Execution
from nearkin.learning.blocks import Block
from nearkin.learning.sampling import RULES
from nearkin.native.quantize import quantize_rows
from nearkin.neighbors import nearest
from nearkin.neighbors.kmeans import Partition
from samples import blobs, slne


@pytest.mark.parametrize(
    ("rule", "symmetric", "normalize"),
    list(itertools.product(RULES, [False, True], [False, True])),
)
def test_every_rule_and_constraint(rule, symmetric, normalize):
    X, y = blobs(n=330)  # more than one block, and a last block that is not full
    lists = nearest(X, 10)[1]
    agree(X, y, lists, rule=rule, symmetric=symmetric, normalize=normalize)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("step_size", [2.0, 10.0])
def test_blocks_are_truncated_where_the_norm_shrinks_too_far(monkeypatch, step_size, symmetric):
    lengths = []
    truncate = Block.truncate
    monkeypatch.setattr(Block, "truncate", lambda block, n: lengths.append(n) or truncate(block, n))
    X, y = blobs(n=330)
    agree(X, y, nearest(X, 10)[1], normalize=True, step_size=step_size, symmetric=symmetric)
    assert lengths


@pytest.mark.parametrize("dims", [1, 2, 3, 5])
@pytest.mark.parametrize("step_size", [0.2, 50.0])
def test_the_norm_is_kept_where_nothing_can_be_learned(dims, step_size):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((400, dims)), rng.integers(0, 4, 400)
    model = slne(normalize=True, n_neighbors=20, step_size=step_size, random_state=0).fit(X, y)
    assert np.linalg.norm(model.matrix_) == pytest.approx(np.sqrt(dims), rel=1e-5)


@pytest.mark.parametrize("n", [3, 63, 64, 65, 255, 256, 257, 513])
def test_block_edges(n):
    X, y = blobs(n=n, classes=2)
    y[:2] = 0, 1
    y[2] = 0
    agree(X, y, nearest(X, min(8, n - 1))[1], order="given")


@pytest.mark.parametrize("rule", ["all", "softmax"])  # whose steps know no ties
def test_quantisation_changes_scores_and_sums_of_many_rows(rule):
    X, y = blobs(n=300)
    lists = nearest(X, 12)[1]
    rows = quantize_rows(X)
    compared = rows.codes[:, : X.shape[1]] * rows.scales
    model = agree(X, y, lists, compared=compared, quantize=True, rule=rule)
    whole = agree(X, y, lists, rule=rule)
    assert not np.array_equal(model.matrix_, whole.matrix_)


def test_local_order():
    """``order="local"``: the steps of Algorithm 1, cell by cell."""
    X, y = blobs(n=300)
    lists = nearest(X, 6)[1]
    model = slne(max_epochs=1, tol=0, order="local", random_state=0).fit(X, y, neighbors=lists)
    seed = np.random.RandomState(0).randint(np.iinfo(np.int32).max)
    cut = Partition(X)
    cells = np.linalg.norm(cut.reduce(X)[:, None] - cut.centroids, axis=2).argmin(axis=1)
    rng = np.random.default_rng([seed, 0])
    order, rank = rng.permutation(len(X)), rng.permutation(cells.max() + 1)
    order = sorted(order, key=lambda i: rank[cells[i]])
    M, _ = oracle.algorithm_1(X, y, lists, epochs=1, orders=[order], draws=[np.zeros(len(X))])
    assert 1 < len(set(cells)) < 60
    assert np.linalg.norm(model.matrix_ - M) <= 1e-4 * np.linalg.norm(M)


def test_duplicate_rows_and_in_given_order():
    X, y = blobs(n=150)
    X[50:100] = X[:50]
    agree(X, y, nearest(X, 8)[1], order="given", epochs=4)


def test_margins_that_all_rows_and_few_rows_violate():
    X, y = blobs(n=120)
    lists = nearest(X, 8)[1]
    assert agree(X, y, lists, margin=5.0).history_[0]["violation_rate"] == 1
    agree(X, y, lists, margin=0.0)


def test_softmax_step_is_the_gradient_of_its_loss():
    """Row 0 alone can step: its targets see no impostor, its impostors no target."""
    X = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    labels = np.array([0, 0, 0, 0, 1, 2, 3])
    lists = np.full((7, 6), -1)
    lists[0] = np.arange(1, 7)
    model = SLNE.paper(
        "softmax", max_epochs=1, step_size=1e-2, random_state=0, execution=Execution(order="given")
    )
    step = (model.fit(X, labels, neighbors=lists).matrix_ - np.eye(4)) / 1e-2

    def loss(M):
        scores = X[1:].astype(float) @ (X[0].astype(float) @ M)
        return oracle.weights("softmax", scores[:3], scores[3:], 0, 0.1, 0)[2]

    gradient = np.zeros((4, 4))
    for cell in np.ndindex(4, 4):
        nudge = np.zeros((4, 4))
        nudge[cell] = 1e-6
        gradient[cell] = (loss(np.eye(4) + nudge) - loss(np.eye(4) - nudge)) / 2e-6
    np.testing.assert_allclose(step, -gradient, atol=1e-4)


def test_the_scale_of_the_rows_does_not_matter():
    """Margin and step size scale with the mean squared length: s·X learns the same M as X."""
    X, y = blobs()
    lists = nearest(X, 10)[1]
    for rule in RULES:
        one = SLNE.paper(rule, max_epochs=2, random_state=0).fit(X, y, neighbors=lists)
        far = SLNE.paper(rule, max_epochs=2, random_state=0).fit(20 * X, y, neighbors=lists)
        np.testing.assert_allclose(one.matrix_, far.matrix_, atol=1e-3)
