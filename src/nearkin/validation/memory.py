"""The memory that is available, compared with what a piece of work needs before it starts."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

Stages = dict[str, int]  # bytes that each stage needs beside its rows; the largest is the bound


def conversion_bytes(X: Any) -> int:
    """Bytes of the copy that is made of rows that are not float32 in C order."""
    shape = getattr(X, "shape", None) or (0, 0)
    ready = isinstance(X, np.ndarray) and X.dtype == np.float32 and X.flags.c_contiguous
    if ready or sparse.issparse(X) or len(shape) != 2:  # sparse rows are refused elsewhere
        return 0
    return 4 * int(shape[0]) * int(shape[1])


def check(what: str, stages: Mapping[str, int], advice: str) -> None:
    """Refuse to start what does not fit into the memory that is there."""
    there = available()
    stage = max(stages, key=lambda name: stages[name])
    if there is None or stages[stage] <= there:
        return
    raise MemoryError(
        f"{what} needs about {_shown(stages[stage])} of memory for its stage {stage!r}, and "
        f"{_shown(there)} are there; {advice}"
    )


def check_conversion(X: Any) -> None:
    """Refuse rows whose conversion to float32 does not fit into memory."""
    advice = "write them to a float32 .npy file and map it: np.load(path, mmap_mode='r')"
    size = conversion_bytes(X)
    if size:
        check("X", {"conversion to float32 in C order": size}, advice)


def available() -> int | None:
    """Bytes that this process can still have: of the machine, its control group, its limits."""
    known = [size for size in (_machine(), _group(), *_limits()) if size is not None]
    return max(0, min(known)) if known else None


def _machine() -> int | None:
    return _entry(Path("/proc/meminfo"), "MemAvailable")


def _entry(path: Path, name: str) -> int | None:
    """A line of the form ``name: 12 kB``, in bytes."""
    with suppress(OSError, ValueError, IndexError):
        for line in path.read_text().splitlines():
            if line.startswith(f"{name}:"):
                return 1024 * int(line.split()[1])
    return None


def _group(
    root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")
) -> int | None:
    """Memory left in the control groups, of either version, that the process is in."""
    rooms: list[int] = []
    with suppress(OSError):
        for line in own.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers not in ("", "memory"):
                continue
            base = root / controllers
            folder = base / path.lstrip("/")
            names = ("memory.max", "memory.current")
            if controllers:
                names = "memory.limit_in_bytes", "memory.usage_in_bytes"
            # A limit may lie on any group above; inside a container the path may lead nowhere.
            for level in {base, folder, *folder.parents}:
                if level.is_relative_to(base):
                    rooms += _room(level, *names)
    return min(rooms, default=None)


def _room(level: Path, limit: str, used: str) -> list[int]:
    with suppress(OSError, ValueError):  # not there, or "max"
        most, now = int((level / limit).read_text()), int((level / used).read_text())
        # Pages of files count as used, but are given back when they are wanted.
        stat = dict(line.split() for line in (level / "memory.stat").read_text().splitlines())
        files = int(stat.get("inactive_file", 0)) + int(stat.get("active_file", 0))
        return [most - now + files]
    return []


def _limits() -> list[int]:
    """Memory left under ``ulimit -v`` (which counts memory maps, too) and ``ulimit -d``."""
    with suppress(ImportError):
        import resource

        status = Path("/proc/self/status")
        kinds = ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData"))
        limits = [(resource.getrlimit(kind)[0], _entry(status, name)) for kind, name in kinds]
        return [m - now for m, now in limits if m != resource.RLIM_INFINITY and now is not None]
    return []


def _shown(size: int) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 1 << 30 else f"{size / 2**20:.0f} MiB"
