"""Indexes of faiss's index factory."""

import os
import subprocess
import sys

import faiss
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
    ["HNSW0", "HNSW00", "HNSW1", "HNSW01", "PQ8x0", "IVF4_HNSW0,Flat", "IVF0,Flat", "OPQ0,PQ4",
     "IVF99999999,Flat", "HNSW9999999", "PQ4x24", "HNSW4;efSearch=9999999",
     "IVF4,Flat,RFlat;k_factor_rf=9999999", "IVF4,Flat;nprobe=0"],
)  # fmt: skip
def test_numbers_that_crash_faiss_are_refused(factory):
    with pytest.raises(ValueError, match=f"index='{factory}': .* must lie between"):
        nearest(np.eye(8), 2, index=factory)


@pytest.mark.parametrize(
    "factory",
    ["NSG2,Flat", "NSG32", "IDMap,Flat", "nonsense", "", "Flat,", "HNSW٣", "IVF4", "PCA4",
     "Flat;", "Flat;verbose=1", "A" * 10_000],
)  # fmt: skip
def test_unknown_factories_are_refused_before_faiss_sees_them(factory, monkeypatch):
    monkeypatch.setattr(faiss, "index_factory", None)
    with pytest.raises(ValueError, match=r"^index=.*(is not known; use|after the semicolon)"):
        nearest(np.eye(8), 2, index=factory)


@pytest.mark.parametrize("factory", ["RR100000,Flat", "Pad17,Flat", "RR0,Flat"])
def test_transforms_to_very_many_columns_are_refused(factory):
    with pytest.raises(ValueError, match="must make rows of 1 to 16 columns"):
        nearest(np.eye(8), 2, index=factory)


@pytest.mark.parametrize(
    "factory",
    ["Flat", "SQ8", "PQ4x4", "LSHrt", "LSH16r", "HNSW", "HNSW8,SQ8", "IVF4,PQ4x4np", "IMI2x2,Flat",
     "IVF4_HNSW8,SQfp16;quantizer_efSearch=9", "OPQ4_16,PQ4x4", "L2norm,PCA4,Flat", "ITQ,LSH",
     "IVF4,SQ4,Refine(SQ8);k_factor_rf=4", "PCAR4,IVF4,PQ2x8"],
)  # fmt: skip
def test_factories_of_every_family(factory):
    rows = rng.normal(size=(600, 8)).astype(np.float32)
    assert recall(rows, nearest(rows, 5, index=factory)[1]) > 0.05


@pytest.mark.parametrize("threads", [1, 2])
def test_a_fork_after_faiss_was_used(threads):
    """OpenMP would wait forever for threads that the fork has left behind."""
    code = f"""
import os, sys
import numpy as np
from nearkin.images import Codebook
from nearkin.native.threads import limited
from nearkin.neighbors import nearest
rows = np.random.default_rng(0).normal(size=(2_000, 8))
with limited({threads}):
    nearest(rows, 3, index="Flat")
    child = os.fork()
    if not child:
        for work in (lambda: nearest(rows, 3, index="Flat"), lambda: Codebook(4, 2).fit(rows)):
            try:
                work()
            except RuntimeError as error:
                print(error, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""
    environment = os.environ | {"OMP_NUM_THREADS": "2"}
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=environment
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("threads that were lost") == (0 if threads == 1 else 2)
