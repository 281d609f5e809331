import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.neighbors import NeighborhoodComponentsAnalysis

import oracle
from nearkin import SLDE, SLNE, Constraint, Execution
from nearkin.ensemble.coupling import Units, start_scores
from nearkin.neighborhoods import neighborhoods
from nearkin.neighbors import nearest
from samples import blobs, slne

EASY = {"n_neighbors": 10, "max_epochs": 2, "tol": 0}


@pytest.fixture(scope="module")
def data():
    X, y = blobs(n=200, dims=12)
    return X, y, nearest(X, 10)[1]


def learner(rule="all", **changes):
    """Visits rows in their order and keeps the last iterate, as the naive form does."""
    return slne(rule, order="given", **(EASY | {"step_size": 0.5, "max_epochs": 1} | changes))


def naive_member(X, y, lists, rule, P, others, unit):
    """An epoch of Algorithm 1 in ``X Pᵀ`` whose scores include `others`, an n×n array.

    `unit` is the length of the scores, in which margin and temperature are.
    """
    Z, n = X.astype(float) @ P.T.astype(float), len(X)
    M = np.eye(len(P))
    for i, (targets, impostors) in enumerate(oracle.split(oracle.symmetrised(lists), y)):
        if not targets or not impostors:
            continue
        q = Z[i] @ M
        scores = [Z[s] @ q + others[i, s] for s in (targets, impostors)]
        ct, ci, loss = oracle.weights(rule, *scores, 0.02 * unit, 0.1 * unit, 0)
        if loss > 0:
            step = 0.5 / np.sqrt(i / n + 1)
            M += step * np.outer(Z[i], ct @ Z[targets] + ci @ Z[impostors])
    return M


def start(X, P):
    """What a member gives each pair of rows at its start."""
    Z = X.astype(float) @ P.T.astype(float)
    return Z @ Z.T


def assert_close(M, expected):
    assert np.linalg.norm(M - expected) <= 1e-3 * np.linalg.norm(expected)


def blocks():
    Q = np.linalg.qr(np.random.default_rng(0).normal(size=(12, 12)))[0].T.astype(np.float32)
    return [Q[:3], Q[3:7], Q[7:]]


@pytest.mark.parametrize("rule", ["hardest", "all", "softmax"])
def test_a_member_scores_by_the_whole_ensemble_at_its_start(data, rule):
    X, y, lists = data
    parts = blocks()
    model = SLDE(learner(rule), projection=parts, coupling="start").fit(X, y, neighbors=lists)
    for P, M in zip(parts, model.members_):
        others = start(X, np.eye(12)) - start(X, P)  # blocks of a rotation: together the identity
        assert_close(M, naive_member(X, y, lists, rule, P, others, 1))


@pytest.mark.parametrize("rule", ["hardest", "all", "softmax"])
def test_a_boosted_member_learns_what_those_before_leave(data, rule):
    X, y, lists = data
    parts = blocks()
    model = SLDE(learner(rule), projection=parts, coupling="boosted").fit(X, y, neighbors=lists)
    total = sum(start(X, P) for P in parts)
    for P, M in zip(parts, model.members_):
        total -= start(X, P)
        expected = naive_member(X, y, lists, rule, P, total, 1)
        assert_close(M, expected)
        Z = X.astype(float) @ P.T
        total += Z @ expected @ Z.T


@pytest.mark.parametrize("coupling", ["start", "boosted"])
def test_members_that_overlap_foresee_each_others_change(data, coupling):
    """The whole space three times: members do the same, so the change counts threefold."""
    X, y, lists = data
    parts = [np.eye(12, dtype=np.float32)] * 3
    model = SLDE(learner("softmax"), projection=parts, coupling=coupling)
    model.fit(X, y, neighbors=lists)
    total = 3 * start(X, np.eye(12))
    for n, M in enumerate(model.members_):
        alike = 3 if coupling == "start" else 3 - n
        others = total / alike - start(X, np.eye(12))
        expected = naive_member(X, y, lists, "softmax", np.eye(12), others, 3 / alike)
        assert_close(M, expected)
        if coupling == "boosted":
            total += X.astype(float) @ (expected - np.eye(12)) @ X.T
    single = learner("softmax").fit(X, y, neighbors=lists)
    assert_close(model.members_[0], single.matrix_)


@pytest.mark.parametrize("projection", ["pca", "strided"])
@pytest.mark.parametrize("coupling", ["start", "boosted"])
def test_directions_that_members_share_count_once(data, projection, coupling):
    """Three blocks of six of twelve directions: each member learns as if it alone held its own."""
    X, y, lists = data
    model = SLDE(learner("all"), projection=projection, n_members=3, n_components=6,
                 coupling=coupling, random_state=0).fit(X, y, neighbors=lists)  # fmt: skip
    held = [np.isin(np.arange(12), P.places) for P in model.projections_]
    assert sum(member.sum() for member in held) == 18
    total = start(X, np.eye(12))
    for P, M, mine in zip(model.projections_, model.members_, held):
        members = sum(np.outer(other, other)[np.ix_(mine, mine)] for other in held)
        order = np.argsort(np.argsort(P.places))  # a block need not be in the basis's order
        members = members[np.ix_(order, order)]
        others = total - start(X, P.rows)
        expected = naive_member(X, y, lists, "all", P.rows, others, 1) / members
        assert_close(M, expected)
        if coupling == "boosted":
            Z = X.astype(float) @ P.rows.T
            total += Z @ (expected - np.eye(6) / members) @ Z.T


def test_an_ensemble_of_overlapping_blocks_starts_at_the_identity(data):
    X, y, lists = data
    single = SLNE(n_neighbors=10, max_epochs=1, step_size=1e-9, prepare=None)
    model = SLDE(single, n_members=5, n_components=4, random_state=0).fit(X, y, neighbors=lists)
    np.testing.assert_allclose(model.matrix_, np.eye(12), atol=1e-5)


@pytest.mark.parametrize("constraint", [{"psd": True}, {"rank": 2}])
def test_members_that_overlap_keep_their_constraint(data, constraint):
    X, y, lists = data
    single = SLNE(n_neighbors=10, constraint=Constraint(**constraint), prepare=None)
    model = SLDE(single, n_members=5, n_components=4, random_state=0).fit(X, y, neighbors=lists)
    for M in model.members_:
        assert np.linalg.matrix_rank(M, tol=1e-4) <= constraint.get("rank", 4)
        assert "psd" not in constraint or np.linalg.eigvalsh(M).min() > -1e-5


def test_scores_at_the_start_are_those_of_the_identities(data):
    X, y, lists = data
    made = SLDE(learner(), projection="random", n_members=3, random_state=0)
    parts = made.fit(X, y, neighbors=lists).projections_
    hoods = neighborhoods(lists, y)
    naive = sum(start(X, P.matrix()) for P in parts)
    row = np.repeat(np.arange(len(X)), hoods.degrees)
    found = start_scores(X, hoods, parts)
    np.testing.assert_allclose(found, naive[row, hoods.indices], rtol=1e-4, atol=1e-4)


def test_units():
    blocks = Units(1.0, [0.5, 0.3, 0.2], "start")
    assert [blocks.alike(n) for n in range(3)] == [1, 1, 1]
    overlapping = Units(2.0, [2.0] * 4, "boosted")
    assert [overlapping.alike(n) for n in range(4)] == [4, 3, 2, 1]
    assert Units(2.0, [0.5], "start").overlap == 1  # a part of the rows, and nothing twice


@pytest.mark.parametrize(
    ("rule", "factor"), [("all", 2.5), ("all_and_hardest", 2.5), ("softmax", 1)]
)
def test_coupled_members_by_all_pairs_take_larger_steps_by_default(rule, factor):
    halves = {how: Units(1.0, [0.5, 0.5], how) for how in ("start", "none")}
    own = SLNE(rule)._step_size * 0.5  # in the units of the whole rows
    assert halves["start"].learner(0, SLNE(rule)).step_size == pytest.approx(factor * own)
    assert halves["none"].learner(0, SLNE(rule)).step_size == pytest.approx(own)
    given = halves["start"].learner(0, SLNE(rule, step_size=0.3))
    assert given.step_size == pytest.approx(0.15)
    assert Units(1.0, [1.0], "start").learner(0, SLNE(rule)).step_size == pytest.approx(2 * own)


def test_one_member_has_nobody_to_know(data):
    X, y, lists = data
    found = [
        SLDE(learner(), projection=[np.eye(12)], coupling=coupling).fit(X, y, neighbors=lists)
        for coupling in ("none", "start", "boosted")
    ]
    for other in found[1:]:
        np.testing.assert_allclose(other.matrix_, found[0].matrix_, atol=1e-5)


@pytest.mark.parametrize("coupling", ["start", "boosted"])
def test_same_for_any_number_of_workers_and_after_a_kill(data, coupling, tmp_path):
    X, y, lists = data
    settings = {"n_members": 3, "coupling": coupling, "random_state": 0}
    whole = SLDE(slne(**EASY), n_jobs=1, **settings).fit(X, y, neighbors=lists)
    two = SLDE(slne(**EASY), n_jobs=2, **settings).fit(X, y, neighbors=lists, folder=tmp_path)
    np.testing.assert_array_equal(whole.matrix_, two.matrix_)
    assert sorted(p.name[:6] for p in tmp_path.glob("*.safetensors")) == ["member"] * 3
    for part in sorted(tmp_path.glob("member-*"))[1:]:
        part.unlink()
    again = SLDE(slne(**EASY), **settings).fit(X, y, neighbors=lists, folder=tmp_path)
    np.testing.assert_array_equal(whole.matrix_, again.matrix_)


def test_automatic_coupling(data):
    X, y, lists = data
    settings = {"n_members": 3, "random_state": 0}
    auto = SLDE(slne(**EASY), **settings).fit(X, y, neighbors=lists)
    start = SLDE(slne(**EASY), coupling="start", **settings).fit(X, y, neighbors=lists)
    np.testing.assert_array_equal(auto.matrix_, start.matrix_)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"coupling": "loose"}, "coupling='loose'"),
        (
            {"coupling": "boosted", "learner": NeighborhoodComponentsAnalysis()},
            "coupling='boosted' needs SLNE",
        ),
        ({"coupling": "boosted", "weights": "accuracy"}, "give weights='equal'"),
    ],
)
def test_what_cannot_be_coupled(data, settings, message):
    with pytest.raises(ValueError, match=message):
        SLDE(**settings).fit(*data[:2])


def test_hand_made_offsets_are_checked(data):
    from dataclasses import replace

    X, y, lists = data
    hoods = neighborhoods(lists, y)
    for offsets, told in [
        (np.zeros(3, np.float32), "offsets holds 3 numbers"),
        (np.zeros(len(hoods.indices)), "neighbors.offsets is ndarray"),
        (np.full(len(hoods.indices), np.nan, np.float32), "neighbors.offsets holds"),
    ]:
        with pytest.raises(ValueError, match=told):
            SLNE.paper().fit(X, y, neighbors=replace(hoods, offsets=offsets))


def precision_at_10(scores, y, truth):
    top = np.argsort(-scores, axis=1)[:, :10]
    return (y[top] == truth[:, None]).mean()


def test_an_ensemble_helps_by_itself():
    """Ahead of the rows as they were prepared, and close to the single similarity.

    Sixteen dimensions a member are few: by default 64 columns are left to one member, which is
    ahead of raw cosine, too.
    """
    X, y = load_digits(return_X_y=True)
    X, y, Q, truth = X[:1200], y[:1200], X[1200:], y[1200:]
    unit = [Z / np.linalg.norm(Z, axis=1, keepdims=True) for Z in (X, Q)]
    raw = precision_at_10(unit[1] @ unit[0].T, y, truth)
    models = {"single": SLNE(), "four": SLDE(n_members=4), "usual": SLDE()}
    found = {}
    for name, model in models.items():
        model.set_params(random_state=0).fit(X, y)
        found[name] = precision_at_10(model.similarity(Q, X), y, truth)
    prepare = models["single"].preparation_.transform
    assert found["four"] > precision_at_10(prepare(Q) @ prepare(X).T, y, truth)
    assert found["four"] > found["single"] - 0.02
    assert found["usual"] > raw
    assert found["usual"] == pytest.approx(found["single"], abs=0.005)


def test_all_defaults_run_without_warnings():
    X, y = blobs(n=300, dims=200, spread=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = SLDE(SLNE(execution=Execution(verbose=0)), random_state=0).fit(X, y)
    assert len(model.members_) == 3
    assert sum(len(M) for M in model.members_) == 200
