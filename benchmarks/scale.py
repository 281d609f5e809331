"""ILSVRC'10's size on one machine: 1.2 million rows of 1,000 dimensions, 1,000 classes, k = 500.

Command: ``python benchmarks/scale.py --work DIR`` (hours, 25 GB of disk); ``--rows 100000`` gives
the same table in minutes. Stopped, it goes on where it was; another --recall has a folder of its
own and shares the rows; --neighbors ends after the lists. Rows are made up (`made_up.py` says
how); their difficulty is the accuracy of plain kNN. Each line: seconds, those of CPU (without
worker processes), peak of the process's own memory (pages of mapped files are not counted), and
what came of it. Learning is timed with what is printed beside it: order of the rows, precision;
``--variants`` names others. ``--choose`` compares ``SoftVotingKNN()`` with a fit of the settings
that it chose.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

import machine
from made_up import World
from nearkin import SLDE, SLNE, Execution, SoftVotingKNN
from nearkin.app.memory_watch import MemoryWatch, release_memory
from nearkin.io.atomic import atomic_write
from nearkin.native.listed_scores import pair_scores
from nearkin.neighborhoods import Neighborhoods, neighborhoods
from nearkin.neighbors import NeighborIndex, nearest, recall
from nearkin.neighbors.kmeans import cells_of
from nearkin.voting.choice import candidates
from nearkin.voting.votes import Vote

QUERIES, CHOOSE, VOTERS = 10_000, 2_000, 50
HUB_LIMIT, RECALL = 10.0, 0.93
VARIANTS: dict[str, dict[str, Any]] = {
    "random order, float32 (the paper's)": {"quantize": False},
    "random order, int8": {"quantize": True},
    "local order, float32": {"order": "local", "quantize": False},
    "local order, int8": {"order": "local", "quantize": True},
}
BEST = "local order, int8"
# In 100 of 1,000 dimensions a row's hardest pair is noise; all pairs together are not. Chosen on
# 60,000 rows of 50 such classes; steps ten times as long for a tenth of a row's length.
MEMBER = {"sampling": "all", "step_size": 2.0}


def told(name: str, work: Callable[[], Any], describe: Callable[[Any], str] = lambda _: "") -> Any:
    """Do the work; print what it took and what came of it."""
    release_memory()
    began, busy = time.perf_counter(), time.process_time()
    with MemoryWatch() as memory:
        result = work()
    seconds, busy = time.perf_counter() - began, time.process_time() - busy
    size = (memory.growth or 0) / 2**30
    print(f"{name:<46} {seconds:>9.1f} s {busy:>9.1f} CPU s {size:>7.2f} GiB   {describe(result)}",
          flush=True)  # fmt: skip
    return result


def rows_of(work: Path, rows: int, dims: int, classes: int) -> tuple[Any, Any, Any, Any]:
    """Rows and labels to learn from (mapped), queries and their labels."""
    world = World(dims, classes)
    path, labels = work / "rows.npy", work / "labels.npy"
    if not labels.exists():
        y = np.empty(rows, np.int32)
        with atomic_write(path) as aside:
            X = np.lib.format.open_memmap(aside, "w+", np.float32, (rows, dims))
            for lo, block, of_block in world.blocks(rows):
                X[lo : lo + len(block)], y[lo : lo + len(block)] = block, of_block
            X.flush()
        with atomic_write(labels) as aside:
            np.save(aside, y)
    return np.load(path, mmap_mode="r"), np.load(labels), *world.sample(QUERIES, part=1)


def graph_of(work: Path, X: Any, lists: Any, y: Any) -> Neighborhoods:
    """The graph and which rows lie together, made once and mapped."""
    names = ("indptr", "indices", "n_targets", "cells")
    if not (work / "cells.npy").exists():
        hoods = neighborhoods(lists, y, hub_limit=HUB_LIMIT)
        with atomic_write(work / "hubs.json") as aside:
            aside.write_text(json.dumps(hoods.n_hubs))
        for name, array in zip(names, (*hoods.arrays, cells_of(X))):
            with atomic_write(work / f"{name}.npy") as aside:
                np.save(aside, array)
    *graph, cells = (np.load(work / f"{name}.npy", mmap_mode="r") for name in names)
    return Neighborhoods(*graph, json.loads((work / "hubs.json").read_text()), cells)


def shortlists_of(work: Path, X: Any, Q: Any) -> Any:
    """The rows that vote on each query, found once."""
    path = work / "shortlists.npy"
    if not path.exists():
        with atomic_write(path) as aside:
            np.save(aside, NeighborIndex(X).nearest(VOTERS, Q)[1])
    return np.load(path)


class Judge:
    """New rows: a fifth of them chooses the vote, the others tell how good it is.

    A vote that takes similarities as they are expects them to be positive, which learning does not
    see to: with a fixed one, plain and learned similarities could not be compared.
    """

    def __init__(self, X: Any, y: Any, Q: Any, truth: Any, near: Any) -> None:
        self.X, self.Q, self.truth, self.near = X, Q, truth, near
        self.labels, self.classes = y[near], int(y.max()) + 1

    def __call__(self, model: Any) -> tuple[float, Vote]:
        """Accuracy, and the vote that was chosen; None stands for the plain similarity."""
        of = pair_scores if model is None else model.neighbor_scores
        scores = of(self.Q, self.X, self.near)
        first, rest = slice(None, CHOOSE), slice(CHOOSE, None)
        vote = max(candidates(scores[first]), key=lambda vote: self._accuracy(vote, scores, first))
        return self._accuracy(vote, scores, rest), vote

    def _accuracy(self, vote: Vote, scores: Any, part: slice) -> float:
        found = vote.tally(scores[part], self.labels[part], self.classes).argmax(axis=1)
        return float((found == self.truth[part]).mean())

    def tell(self, model: Any) -> None:
        """Print what comes of a model, and how long it took."""
        told(f"    {QUERIES - CHOOSE:,} new rows", lambda: self(model),
             lambda found: f"accuracy {found[0]:.4f}, vote {found[1].kind}")  # fmt: skip


def epochs(model: SLNE) -> str:
    each = [h["seconds"] for h in model.history_]
    rates = ", ".join(f"{h['violation_rate']:.2f}" for h in model.history_)
    return f"{np.mean(each):.0f} s an epoch, {len(each)} epochs, violations {rates}"


def members(ensemble: SLDE, jobs: int) -> str:
    each = [h["seconds"] for history in ensemble.histories_ for h in history]
    all_at_once = np.mean(each) * ensemble.n_members / jobs
    counts = ", ".join(str(len(history)) for history in ensemble.histories_)
    return f"epochs of the members {counts}; one epoch of all takes {all_at_once:.0f} s"


def hashing(X: Any, k: int, sample: int) -> None:
    """Hashing against the other indexes, all asked for the lists of the same rows."""
    part = np.ascontiguousarray(X[:: max(1, len(X) // sample)])
    print(f"\nneighbour search, {len(part):,} rows, k={k}: recall on 200 rows")
    lists = int(4 * len(part) ** 0.5)
    inverted = f"IVF{lists},Flat;nprobe={lists // 16}"
    for index in ("exact", "cells;recall=0.93", inverted, "HNSW32", "LSH"):
        told(f"  {index}", lambda index=index: nearest(part, k, index=index)[1],
             lambda found: f"recall {recall(part, found, sample=200):.3f}")  # fmt: skip


def choosing(work: Path, X: Any, y: Any, Q: Any, truth: Any) -> None:
    """A fit that chooses everything, and one that knows what was chosen."""

    def accuracy(model: SoftVotingKNN) -> str:
        return f"accuracy {model.score(Q, truth):.4f}"

    model = SoftVotingKNN(random_state=0)
    told("SoftVotingKNN()", lambda: model.fit(X, y, folder=work / "chosen"), accuracy)
    print(model.report_)
    known = SoftVotingKNN(
        None if model.similarity_ is None else clone(model.similarity_),
        preprocess=None if model.preprocess_ is None else clone(model.preprocess_),
        n_neighbors=model.n_neighbors_, vote=model.vote_, random_state=0,
    )  # fmt: skip
    told("the same settings, given", lambda: known.fit(X, y, folder=work / "known"), accuracy)


def learning(given: Any, place: Path, work: Path, X: Any, y: Any, Q: Any, truth: Any) -> None:
    """From neighbours to votes."""
    lists = told(
        "neighbours",
        lambda: nearest(
            X, given.k, index=f"cells;recall={given.recall}", return_distance=False,
            folder=work / f"k{given.k}",
        ),
        lambda found: f"recall {recall(X, found, sample=300):.3f}",
    )  # fmt: skip
    if given.neighbors:
        return
    hoods = told("graph", lambda: graph_of(work, X, lists, y), lambda g:
                 f"mean degree {g.degrees.mean():.0f}, {g.n_hubs} hubs")  # fmt: skip
    near = told("shortlists of the queries", lambda: shortlists_of(place, X, Q))
    judge = Judge(X, y, Q, truth, near)
    print("plain kNN")
    judge.tell(None)
    print("SL-NE")
    for name in given.variants:
        execution = Execution(**VARIANTS[name])
        model = SLNE.paper(max_epochs=given.epochs, tol=0, random_state=0, execution=execution)
        told(f"  {name}", lambda model=model: model.fit(X, y, neighbors=hoods), epochs)
        judge.tell(model)
    ensemble = SLDE.paper(  # coupled members would keep a score for each of a billion edges
        SLNE.paper(
            max_epochs=given.member_epochs, n_neighbors=given.k, **MEMBER,
            execution=Execution(**VARIANTS[BEST]),
        ),
        n_members=given.members, n_components=given.dims // given.members, n_jobs=given.jobs,
        random_state=0,
    )  # fmt: skip
    told(f"SL-DE, rule all, {BEST}",
         lambda: ensemble.fit(X, y, neighbors=hoods, folder=work / "members"),
         lambda e: members(e, given.jobs))  # fmt: skip
    judge.tell(ensemble)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, required=True, help="folder for rows, lists, graph")
    parser.add_argument("--rows", type=int, default=1_200_000)
    parser.add_argument("--dims", type=int, default=1_000)
    parser.add_argument("--classes", type=int, default=1_000)
    parser.add_argument("--k", type=int, default=500)
    parser.add_argument("--recall", type=float, default=RECALL)
    parser.add_argument("--epochs", type=int, default=1, help="of SL-NE")
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--member-epochs", type=int, default=20, help="of SL-DE, at most")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=[BEST], metavar="NAME",
                        help="of SL-NE: " + "; ".join(VARIANTS))  # fmt: skip
    parser.add_argument("--neighbors", action="store_true", help="end after the lists")
    parser.add_argument("--choose", action="store_true", help="only time SoftVotingKNN()")
    parser.add_argument("--hashing", type=int, default=0, help="only compare indexes, on so many")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    place = given.work / f"{given.rows}x{given.dims}"
    work = place if given.recall == RECALL else place / f"recall{given.recall:g}"
    work.mkdir(parents=True, exist_ok=True)
    print(machine.facts())
    print(f"{given.rows:,} rows × {given.dims:,}, {given.classes:,} classes, k={given.k}\n")
    X, y, Q, truth = told("rows", lambda: rows_of(place, given.rows, given.dims, given.classes))
    if given.hashing:
        hashing(X, min(given.k, 100), given.hashing)
        return
    if given.choose:
        choosing(place, X, y, Q, truth)
        return
    learning(given, place, work, X, y, Q, truth)


if __name__ == "__main__":
    main()
