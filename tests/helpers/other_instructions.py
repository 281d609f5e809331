"""A test module run again in a process that compiles for other processor features."""

import os
import subprocess
import sys
from pathlib import Path


def digest_compiled_for(features: str, module: Path, cache: Path) -> str:
    """What ``digest()`` of the module returns there; `cache` takes the compiled code."""
    environment = os.environ | {
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CPU_FEATURES": features,
        "NUMBA_CACHE_DIR": str(cache),
    }
    folders = [str(module.parent), str(Path(__file__).parent)]
    script = f"import sys; sys.path[:0] = {folders!r}; import {module.stem} as module"
    done = subprocess.run(
        [sys.executable, "-c", f"{script}; print(module.digest())"],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip()
