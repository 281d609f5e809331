"""One contract for all back ends, and back ends from outside the package."""

import subprocess
import sys

import numpy as np
import pytest

from kd_tree import KDTree
from nearkin import SLNE, Execution
from nearkin.neighbors import NeighborIndex, nearest, recall, register
from nearkin.neighbors.exact import Exact
from nearkin.neighbors.registry import EXACT_ROWS, build, resolve
from samples import blobs

BACK_ENDS = ["exact", "auto", "cells;recall=0.999", "Flat", "IVF8,Flat;nprobe=8", "HNSW32", "tree",
             "itq;bits=64,candidates=100"]  # fmt: skip

register("tree", "kd_tree:KDTree")


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(400, 9)).astype(np.float32)


def naive(X, queries, k, own=None):
    d = np.linalg.norm(queries[:, None].astype(float) - X[None], axis=2)
    if own is not None:
        d[np.arange(len(own)), own] = np.inf
    return np.sort(d, axis=1)[:, :k]


@pytest.mark.parametrize("index", BACK_ENDS)
def test_lists_of_all_rows(rows, index):
    distances, indices = nearest(rows, 6, index=index)
    assert indices.shape == distances.shape == (400, 6)
    assert indices.dtype == np.int32
    assert distances.dtype == np.float32
    assert (indices != np.arange(400)[:, None]).all()
    assert (np.diff(distances, axis=1) >= 0).all()
    close = np.isclose(distances, naive(rows, rows, 6, np.arange(400)), rtol=1e-4)
    assert close.all() or (index.startswith("cells") and close.mean() > 0.99)
    assert recall(rows, indices) > 0.99


@pytest.mark.parametrize("index", BACK_ENDS)
def test_lists_of_queries(rows, index):
    queries = rows[:50] + np.float32(0.01)
    distances, _ = NeighborIndex(rows, index).nearest(5, queries)
    np.testing.assert_allclose(distances, naive(rows, queries, 5), rtol=1e-4)


@pytest.mark.parametrize("index", BACK_ENDS)
def test_a_loaded_index_finds_the_same(rows, index, tmp_path):
    built = build(rows, index)
    built.prepare(7)
    found = built.search(rows, 7)
    assert found.shape[0] == 400
    assert found.shape[1] >= 7
    built.save(tmp_path / "index")
    loaded = type(built).load(rows, tmp_path / "index")
    np.testing.assert_array_equal(loaded.search(rows, 7), found)
    order = np.arange(400) if loaded.order is None else loaded.order
    np.testing.assert_array_equal(np.sort(order), np.arange(400))


def test_a_registered_back_end_takes_settings(rows):
    exact, loose = (nearest(rows, 9, index=index)[1] for index in ("tree", "tree;eps=3"))
    assert recall(rows, exact) == 1
    assert 0.1 < recall(rows, loose) < 1


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_a_registered_back_end_in_shards(rows, tmp_path, monkeypatch, n_jobs):
    monkeypatch.setattr("nearkin.neighbors.shards.SHARD_ROWS", 150)
    found = nearest(rows, 9, index="tree;eps=3", folder=tmp_path / "near", n_jobs=n_jobs)
    expected = nearest(rows, 9, index="tree;eps=3")
    np.testing.assert_array_equal(found[1], expected[1])
    np.testing.assert_array_equal(found[0], expected[0])


def test_a_registered_back_end_in_a_fit():
    X, y = blobs(n=200)
    fits = [
        SLNE.paper(
            n_neighbors=8, max_epochs=2, tol=0, random_state=0, execution=Execution(index=index)
        )
        .fit(X, y)
        .matrix_
        for index in ("exact", "tree")
    ]
    np.testing.assert_array_equal(*fits)


def test_its_settings_are_checked_before_anything_is_written(rows, tmp_path):
    with pytest.raises(ValueError, match="no setting 'leaf'"):
        nearest(rows, 3, index="tree;leaf=3", folder=tmp_path / "near")
    assert not (tmp_path / "near").exists()


def test_a_class_is_registered_as_it_is(rows):
    register("tree of a class", KDTree)
    assert resolve("tree of a class;eps=1", 10) is KDTree
    register("tree of a class", Exact)
    assert resolve("tree of a class", 10) is Exact


class Half(KDTree):
    """Returns too few candidates."""

    def search(self, queries, k):
        return super().search(queries, k)[:, : k // 2]


def test_too_few_candidates_are_refused(rows):
    register("half", Half)
    with pytest.raises(ValueError, match=r"Half.search returned .*\(400, 3\) for 400 queries"):
        nearest(rows, 5, index="half")


@pytest.mark.parametrize(
    ("name", "back_end", "error", "message"),
    [
        ("exact", KDTree, ValueError, "name='exact' cannot be registered"),
        ("auto", KDTree, ValueError, "name='auto' cannot be registered"),
        ("a;b", KDTree, ValueError, "name='a;b' cannot be registered"),
        ("mine", "no.colon", ValueError, "must have the form 'package.module:Class'"),
        ("mine", dict, TypeError, "lacks search, save, load, prepare, check"),
        ("mine", 7, TypeError, "derive it from Index"),
    ],
)
def test_bad_registrations(name, back_end, error, message):
    with pytest.raises(error, match=message):
        register(name, back_end)


@pytest.mark.parametrize("target", ["no_such_module:Index", "kd_tree:NoSuchClass"])
def test_what_cannot_be_imported_is_named(rows, target):
    register("missing", target)
    with pytest.raises(ImportError, match=f"index='missing' is registered as '{target}'"):
        nearest(rows, 3, index="missing")


def test_an_unknown_name_lists_what_there_is(rows):
    with pytest.raises(
        ValueError, match=r"use 'auto', 'exact', 'cells', 'itq', 'tree'.* faiss index"
    ):
        nearest(rows, 3, index="treee")


def test_auto_is_exact_up_to_a_number_of_rows(rows):
    assert resolve("auto", EXACT_ROWS) is resolve("exact", EXACT_ROWS)
    assert resolve("auto;recall=0.9", EXACT_ROWS + 1) is resolve("cells", 1)
    exact = nearest(rows, 5, index="exact")[1]
    np.testing.assert_array_equal(nearest(rows, 5, index="auto;recall=0.9")[1], exact)


def test_back_ends_are_imported_on_first_use():
    code = (
        "import sys, nearkin.neighbors; found = set(sys.modules); "
        "assert not found & {'faiss', 'nearkin.neighbors.exact', 'nearkin.neighbors.cells'}"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("found", [10**6, 2**32, -2])
def test_a_back_end_that_finds_rows_that_are_not_there(rows, found):
    class Wrong(Exact):
        def search(self, queries, k):
            return np.full((len(queries), k), found)

    register("wrong", Wrong)
    with pytest.raises(ValueError, match=rf"Wrong.search returned int64 from {found}"):
        nearest(rows, 3, index="wrong")
