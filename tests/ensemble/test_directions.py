import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg

from nearkin.ensemble import directions
from nearkin.ensemble.directions import consecutive, discriminant, principal, strided
from nearkin.ensemble.projections import make_projections
from nearkin.preprocessing import pca

rng = np.random.default_rng


def classes(n=300, D=10, k=4, spread=1.0, seed=0):
    """Rows of `k` classes, whose means differ in the directions of least variance."""
    r = rng(seed)
    y = np.arange(n) % k
    means = np.zeros((k, D))
    means[:, -k:] = 3 * np.eye(k)
    X = r.normal(size=(n, D)) * np.linspace(5, 0.5, D) * spread + means[y]
    return X.astype(np.float32), y


@given(st.integers(1, 60), st.integers(1, 60), st.sampled_from([consecutive, strided]))
def test_every_direction_is_dealt_once(count, members, deal):
    members = min(members, count)
    blocks = deal(count, members)
    assert len(blocks) == members
    assert sorted(np.concatenate(blocks).tolist()) == list(range(count))
    sizes = [len(block) for block in blocks]
    assert max(sizes) - min(sizes) <= 1


@given(st.data(), st.integers(1, 40), st.integers(1, 12), st.sampled_from([consecutive, strided]))
def test_blocks_that_overlap_are_of_one_size_and_leave_nothing_out(data, count, members, deal):
    least = -(-count // members)  # fewer would not overlap
    size = data.draw(st.integers(min(least + 1, count), count))
    blocks = deal(count, members, size)
    assert [len(set(block.tolist())) for block in blocks] == [size] * members
    assert set(np.concatenate(blocks).tolist()) == set(range(count)) or members == 1


@given(st.integers(1, 40), st.integers(1, 12))
def test_strided_is_dealing_to_and_fro(count, members):
    naive, at, step = [[] for _ in range(members)], 0, 1
    for place in range(count):
        naive[at].append(place)
        at += step
        if not 0 <= at < members:
            step, at = -step, at - step
    assert [block.tolist() for block in strided(count, members)] == naive


@given(st.lists(st.floats(0.01, 100), min_size=8, max_size=40))
def test_strided_blocks_hold_about_the_same(variances):
    """The largest share exceeds the smallest by no more than the largest single variance."""
    falling = np.sort(variances)[::-1]
    shares = [falling[block].sum() for block in strided(len(falling), 4)]
    assert max(shares) - min(shares) <= falling[0] + 1e-9


def naive_discriminants(X, y, most):
    X = X.astype(float)
    means = np.stack([X[y == c].mean(axis=0) for c in np.unique(y)])
    within = (X - means[y]).T @ (X - means[y]) / len(X)
    counts = np.bincount(y)[:, None]
    off = means - X.mean(axis=0)
    between = (off * counts).T @ off / len(X)
    floor = directions.SHRINKAGE * np.trace(within) / len(within)
    values, vectors = linalg.eig(between, within + floor * np.eye(len(within)))
    return vectors[:, np.argsort(-values.real)[:most]].real


@pytest.mark.parametrize("block", [1 << 20, 400])
def test_discriminant_directions_solve_the_eigenproblem(monkeypatch, block):
    monkeypatch.setattr(pca, "BLOCK_BYTES", block)  # one block of rows, or many
    X, y = classes()
    made = discriminant(X, y, None, rng(0)).rows
    np.testing.assert_allclose(made @ made.T, np.eye(10), atol=1e-4)
    naive = naive_discriminants(X, y, 3)
    for count in (1, 2, 3):  # in their order, made orthonormal: equal spaces
        angles = linalg.subspace_angles(made[:count].T, naive[:, :count])
        assert angles.max() < 1e-2
    left = X - X.mean(axis=0)
    left = left - left @ made[:3].T @ made[:3]
    axes = linalg.eigh(left.T @ left)[1][:, ::-1].T
    np.testing.assert_allclose(np.abs((axes[:7] * made[3:]).sum(axis=1)), 1, atol=1e-2)


def test_variances_are_those_along_the_directions():
    X, y = classes()
    for found in (principal(X, 6, rng(0)), discriminant(X, y, 6, rng(0))):
        along = (X @ found.rows.T).var(axis=0)
        np.testing.assert_allclose(found.variances, along, rtol=1e-3)
        assert found.total == pytest.approx(X.var(axis=0).sum(), rel=1e-4)


@pytest.mark.parametrize("kind", ["strided", "discriminant", "pca"])
@given(n=st.integers(40, 60), D=st.integers(4, 20), members=st.integers(1, 4))
@settings(deadline=None, max_examples=15)
def test_blocks_are_orthonormal_and_share_nothing(kind, n, D, members):
    X, y = classes(n, D)
    made, energies = make_projections(kind, X, members, None, rng(0), y)
    whole = np.concatenate([P.matrix() for P in made])
    np.testing.assert_allclose(whole @ whole.T, np.eye(len(whole)), atol=1e-3)
    assert sum(energies) == pytest.approx(1, abs=1e-3)
    assert sum(P.shape[0] for P in made) == len(whole) == np.linalg.matrix_rank(X - X.mean(axis=0))


def test_more_columns_than_rows():
    X, y = classes(n=24, D=60)
    made, _ = make_projections("discriminant", X, 4, 5, rng(0), y)
    whole = np.concatenate([P.matrix() for P in made])
    assert whole.shape == (20, 60)
    np.testing.assert_allclose(whole @ whole.T, np.eye(20), atol=1e-3)


def test_labels_of_held_out_rows_are_not_looked_at():
    X, y = classes()
    held = rng(1).random(len(y)) < 0.3
    one = make_projections("discriminant", X, 2, 5, rng(0), np.where(held, -1, y))[0]
    others = y.copy()
    others[held] = rng(2).permutation(others[held])
    two = make_projections("discriminant", X, 2, 5, rng(0), np.where(held, -1, others))[0]
    seen = make_projections("discriminant", X, 2, 5, rng(0), others)[0]
    for a, b, c in zip(one, two, seen):
        np.testing.assert_array_equal(a.matrix(), b.matrix())
        assert not np.array_equal(a.matrix(), c.matrix())


def test_a_memory_map_gives_the_same_bits(tmp_path):
    X, y = classes()
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    for kind in ("strided", "discriminant"):
        for a, b in zip(*(make_projections(kind, Z, 3, None, rng(0), y)[0] for Z in (X, mapped))):
            np.testing.assert_array_equal(a.matrix(), b.matrix())


def test_constant_columns_leave_no_block_empty():
    X, _ = classes()
    X = np.concatenate([X, np.full((len(X), 6), 2, np.float32)], axis=1)
    made, energies = make_projections("pca", X, 8, None, rng(0))
    assert min(energies) > 1e-4
    assert sum(P.shape[0] for P in made) == 10


def test_discriminant_needs_labels():
    with pytest.raises(ValueError, match="projection='discriminant' needs labels"):
        make_projections("discriminant", classes()[0], 2, 2, rng(0))
