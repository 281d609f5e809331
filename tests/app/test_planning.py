"""What a fit is said to take."""

import numpy as np
import pytest

from nearkin import SLDE, SLNE
from nearkin.app import planning
from nearkin.app.memory_watch import MemoryWatch


@pytest.fixture(autouse=True)
def short_probes(monkeypatch):
    monkeypatch.setattr(planning, "PROBE_SECONDS", 0.01)
    monkeypatch.setattr(planning, "SEARCH_SECONDS", 0.01)
    monkeypatch.setattr(planning, "PROBE_FLOATS", 1 << 16)


def test_members_keep_a_score_for_each_edge():
    rows, k = 50_000, 400
    plan = planning.estimate(rows, 40, k, members=4, epochs=1)
    edges = 1.4 * rows * k
    assert plan["disk_for_scores_MiB"] == pytest.approx(4 * edges / 2**20, rel=0.01)
    # The graph, the scores of all members, and those of the others while a member learns.
    assert plan["memory_without_rows_MiB"]["members"] > 12 * edges / 2**20
    assert "disk_for_scores_MiB" not in planning.estimate(rows, 40, k, epochs=1)


def test_the_plan_of_an_ensemble_covers_what_it_takes():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(4_000, 24)).astype(np.float32), rng.integers(0, 4, 4_000)
    lists = rng.integers(0, 4_000, (4_000, 300), np.int32)
    SLDE(SLNE(max_epochs=1), n_members=2).fit(X[:400], y[:400])  # compile
    plan = planning.estimate(4_000, 24, 300, members=2, epochs=1)
    with MemoryWatch() as memory:
        SLDE(SLNE(max_epochs=1, n_neighbors=300), n_members=2).fit(X, y, neighbors=lists)
    if memory.growth is None:
        pytest.skip("this system does not tell the memory of a process")
    assert memory.growth / 2**20 < max(plan["memory_without_rows_MiB"].values())


@pytest.mark.parametrize(
    ("rows", "dims", "k", "seconds"),
    [  # CPU seconds of a core, measured
        (50_000, 1_000, 15, 4.0), (50_000, 1_000, 100, 5.3), (50_000, 1_000, 500, 9.8),
        (110_000, 32, 10, 3.2), (110_000, 64, 50, 4.8), (110_000, 256, 20, 7.2),
    ],
)  # fmt: skip
def test_the_time_of_cells_is_within_a_factor_of_two(rows, dims, k, seconds, monkeypatch):
    monkeypatch.setattr(planning, "EXACT_ROWS", 10_000)
    planned = 2 * planning._search(rows, dims, k)["seconds_for_neighbors_by_cells"]
    assert seconds / 2 < planned < 2 * seconds
