"""A kill before every file operation; then the work is done again and must end the same."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

import kill_points
from hostile import works
from hostile.judge import FINE, Verdict
from hostile.runner import Case
from hostile.works import Reference, Work, left_in, reference

ENOUGH, MOST = 1_000, 150
LONGEST = 200.0  # seconds for the kills of one work, each of which it is done about twice for


def cases(seed: int) -> Iterator[Case]:
    """Points of every work, all if there is time; if they are few, pairs for quick works."""
    rng = np.random.default_rng(seed)
    counted = [(work, reference(work)) for work in works.all_works()]
    total = 0
    for work, clean in counted:
        most = min(MOST, int(LONGEST / 2 / clean.seconds))
        chosen = rng.permutation(np.arange(1, clean.operations + 1))[:most]
        total += len(chosen)
        for nth in sorted(chosen.tolist()):
            yield _case(work, [nth], clean)
    quick = sorted(counted, key=lambda pair: pair[1].seconds)[: len(counted) // 2]
    while total < ENOUGH:
        work, clean = quick[rng.integers(len(quick))]
        points = rng.integers(1, clean.operations + 1, 2).tolist()
        total += 2
        yield _case(work, points, clean)


def _case(work: Work, points: list[int], clean: Reference) -> Case:
    name = f"{work.name}/{'+'.join(map(str, points))}"
    run = lambda: _run(work, points, clean)  # noqa: E731
    return Case("kills", name, run, ("--out",), memory=None, seconds=60)


def _run(work: Work, points: list[int], clean: Reference) -> Verdict:
    folder = Path("run").absolute()
    others = Path("mine.npy"), Path(".mine.part")
    for other in others:
        other.write_text("mine")
    for nth in points:
        kill_points.killed(lambda: work.run(folder), nth)
    again = work.run(folder)
    if again != clean.result:
        return Verdict("wrong", f"another result: {again:.200} for {clean.result:.200}")
    if left_in(folder) != clean.names:
        return Verdict("wrong", f"other files: {sorted(set(left_in(folder)) ^ set(clean.names))}")
    if any(other.read_text() != "mine" for other in others):
        return Verdict("wrong", "files of the user are lost")
    return FINE
