"""Indexes of faiss's index factory."""

import numpy as np
import pytest

import nearkin
from nearkin import SoftVotingKNN, Vote
from nearkin.neighbors import NeighborIndex, nearest, recall
from samples import blobs

rng = np.random.default_rng(0)


@pytest.mark.parametrize("factory", ["HNSW4", "PCAR16,HNSW4", "HNSW4,RFlat"])
def test_a_search_does_not_depend_on_earlier_ones(factory):
    rows = rng.normal(size=(3_000, 16)).astype(np.float32)
    index = NeighborIndex(rows, factory)
    first = index.nearest(3, rows[:200])[1]
    index.nearest(300, rows[:5])
    np.testing.assert_array_equal(index.nearest(3, rows[:200])[1], first)


def test_a_loaded_model_finds_the_same_rows(tmp_path):
    X, y = blobs(n=2_000)
    vote = Vote("power", csls=0.5)
    model = SoftVotingKNN(None, n_neighbors=5, index="HNSW4", vote=vote).fit(X, y)
    model.save(tmp_path / "m.safetensors")
    again = nearkin.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(again.kneighbors(X[:300])[1], model.kneighbors(X[:300])[1])


def test_search_parameters_are_kept():
    rows = rng.normal(size=(2_000, 8)).astype(np.float32)
    few, many = (recall(rows, nearest(rows, 20, index=f"HNSW4;efSearch={n}")[1]) for n in (20, 400))
    assert few < many


@pytest.mark.parametrize("factory", ["IVF64,Flat,RFlat", "PCAR32,IVF64,Flat"])
def test_nprobe_is_set_inside_wrappers(factory):
    rows = rng.normal(size=(2_000, 32)).astype(np.float32)
    behind = recall(rows, nearest(rows, 10, index=factory)[1])
    assert behind == pytest.approx(recall(rows, nearest(rows, 10, index="IVF64,Flat")[1]), abs=0.05)


@pytest.mark.parametrize(
    "factory",
    ["HNSW0", "HNSW00", "HNSW1", "HNSW01", "NSG0", "NSG1,Flat", "PQ8x0", "IVF4_HNSW0,Flat",
     "IVF0,Flat"],
)  # fmt: skip
def test_factories_that_crash_faiss_are_refused(factory):
    with pytest.raises(ValueError, match=f"index='{factory}' holds a number that is too small"):
        nearest(np.eye(8), 2, index=factory)
