"""A disk that is full after so many bytes: said so, and after some space was freed, resumed."""

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

from hostile import judge, material, runner, surface, works
from hostile.judge import FINE, Verdict
from hostile.runner import Case
from hostile.works import Work, reference

POINTS = 40  # sizes a work, at most
PAGE = 4096
NEWNS, REMOUNT, PRIVATE, REC = 0x20000, 32, 1 << 18, 16384


def cases(seed: int) -> Iterator[Case]:
    if os.geteuid() or not runner.aside(_can_mount):
        return
    for work in (*works.all_works(), *lone_files()):
        clean = reference(work)
        pages = 2 + clean.size // PAGE
        for size in sorted({1 + pages * i // POINTS for i in range(POINTS)}):
            name = f"{work.name}/{size} pages"
            run = lambda work=work, size=size, clean=clean: _run(work, size, clean.result)  # noqa: E731
            yield Case("full disk", name, run, memory=None, seconds=60)


def lone_files() -> list[Work]:
    """Work that writes one file: everything that takes ``out=``, and saving a model."""

    def save(folder: Path) -> str:
        import nearkin

        folder.mkdir(exist_ok=True)
        model = material.small(surface.estimators()["SoftVotingKNN"]).fit(*material.many_rows())
        nearkin.save(model, folder / "m.safetensors")
        return works.digest(nearkin.load(folder / "m.safetensors"))

    def transform(target: surface.Target, folder: Path) -> str:
        folder.mkdir(exist_ok=True)
        rows = {n: [*v] * 60 for n, v in target.clean.items() if n in ("X", "images")}
        return works.digest(target.function(**rows, out=folder / "rows.npy"))

    takers = [t for t in surface.targets() if "out" in t.open_to_attack]
    made = [Work(f"{t.name} to a file", lambda f, t=t: transform(t, f)) for t in takers]
    return [Work("save", save), *made]


def _libc(name: str, *arguments: object) -> bool:
    return getattr(ctypes.CDLL(None), name)(*arguments) == 0


def _mount(place: Path, size: int, flags: int = 0) -> bool:
    return _libc("mount", b"tmpfs", os.fsencode(place), b"tmpfs", flags, f"size={size}".encode())


def _own_mounts() -> bool:
    """Mounts of this process alone, which end with it."""
    return _libc("unshare", NEWNS) and _libc("mount", None, b"/", None, PRIVATE | REC, None)


def _can_mount() -> bool:
    return _own_mounts() and _mount(material.HOME.folder, 1 << 20)


def _run(work: Work, pages: int, clean: str) -> Verdict:
    disk = Path("disk").absolute()
    disk.mkdir()
    if not _own_mounts() or not _mount(disk, pages * PAGE):
        return Verdict("unjudged", "no small disk")
    os.environ["TMPDIR"] = str(disk)
    outcome = FINE
    try:
        first = work.run(disk / "run")
    except Exception as error:
        outcome = judge.of_error(error, ("full", "space", "room"))
    else:
        return FINE if first == clean else Verdict("wrong", "another result on a small disk")
    _mount(disk, 1 << 28, REMOUNT)
    if work.run(disk / "run") != clean:
        return Verdict("wrong", f"another result after the disk was full ({outcome.detail})")
    return outcome
