"""Images to rows of features: in parallel, resumable, with every bad file reported."""

import hashlib
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from nearkin.images.reading import Source
from nearkin.images.store import Failures, Sink, opened
from nearkin.io.fingerprint import TextDigest
from nearkin.io.progress_bar import track
from nearkin.io.run_folder import as_run_folder

Failed: TypeAlias = list[tuple[str, str]]  # path, reason
Chunk: TypeAlias = tuple[int, int, Failures, NDArray[Any] | None]

DTYPES = ("float32", "float16")
ON_ERROR = ("raise", "skip")
SHOWN = 20


class Encoder(Protocol):
    """What `extract` needs of an estimator."""

    def encode(self, sources: Sequence[Source]) -> tuple[NDArray[np.float32], Failures]:
        """Features, a row an image, zero for those that failed; and why they did."""


class UnreadableImages(ValueError):
    """Images that could not be used; `failed` lists every (path, reason)."""

    def __init__(self, failed: Failed, total: int, advice: str = "") -> None:
        self.failed = failed
        shown = [f"  {name}: {reason}" for name, reason in failed[:SHOWN]]
        if len(failed) > SHOWN:
            shown.append(f"  … and {len(failed) - SHOWN} more")
        text = f"{len(failed)} of {total} images could not be used{advice}:"
        super().__init__("\n".join([text, *shown]))


def extract(
    encoder: Encoder,
    sources: Sequence[Source],
    settings: Mapping[str, Any],
    shape: tuple[int, int],
    *,
    out: str | os.PathLike[str] | None,
    folder: Any,
    dtype: str,
    n_jobs: int | None,
    on_error: str,
) -> tuple[NDArray[Any], Failed]:
    """Features of all images (in memory, or memory-mapped), and what failed.

    Rows are worked on in chunks that are the same whatever `n_jobs` and however often the run was
    interrupted, and so are the features, to the bit. `shape` is (images a chunk, dimensions).
    """
    _check_choice("dtype", dtype, DTYPES)
    _check_choice("on_error", on_error, ON_ERROR)
    chunk, width = shape
    place, inputs = as_run_folder(folder), {**settings, "images": fingerprint(sources)}
    failures: Failures = {}
    with opened(out, place, (len(sources), width), dtype, chunk, inputs) as store:
        starts = np.unique(np.flatnonzero(~store.done) // chunk) * chunk
        for start, stop, failed, values in _run(
            encoder, sources, starts.tolist(), chunk, store.sink, dtype, n_jobs
        ):
            store.record(start, stop, values)
            failures.update(failed)
        failed_names = [(name_of(sources[row]), failures[row]) for row in sorted(failures)]
        _report(failed_names, len(sources), on_error, kept=place.durable)
        store.finish(failures)
    return store.rows, failed_names


def name_of(source: Source) -> str:
    """What to call an image in a message."""
    return f"<{len(source)} bytes>" if isinstance(source, bytes) else os.fspath(source)


def fingerprint(sources: Sequence[Source]) -> TextDigest:
    """A digest of which images these are, in which order; not of what the files hold."""
    digest = hashlib.sha256()
    for source in sources:
        data = source if isinstance(source, bytes) else os.fsencode(os.path.abspath(source))
        digest.update(hashlib.sha256(data).digest())
    return TextDigest(digest.hexdigest())


def _run(
    encoder: Encoder,
    sources: Sequence[Source],
    starts: list[int],
    chunk: int,
    sink: Sink | None,
    dtype: str,
    n_jobs: int | None,
) -> Iterator[Chunk]:
    # No memory mapping of arguments: compiled code would be compiled again for read-only arrays.
    parallel = Parallel(n_jobs=n_jobs, max_nbytes=None, return_as="generator_unordered")
    finished = parallel(
        delayed(_work)(encoder, sources[start : start + chunk], start, sink, dtype)
        for start in starts
    )
    yield from track(finished, "features", total=len(starts))


def _work(
    encoder: Encoder, sources: Sequence[Source], start: int, sink: Sink | None, dtype: str
) -> Chunk:
    # One thread of BLAS: the processes are the parallelism, and sums keep their order.
    with threadpool_limits(1):
        values, failed = encoder.encode(sources)
    values = values.astype(dtype)
    failed = {start + i: reason for i, reason in failed.items()}
    if sink is None:
        return start, start + len(sources), failed, values
    sink.write(start, values, failed)
    return start, start + len(sources), failed, None


def _report(failed: Failed, total: int, on_error: str, kept: bool) -> None:
    if not failed:
        return
    if on_error == "skip":
        warnings.warn(str(UnreadableImages(failed, total, " and have rows of zeros")), stacklevel=4)
        return
    resume = "the other rows are kept: mend these and run again, or " if kept else ""
    raise UnreadableImages(failed, total, f" ({resume}pass on_error='skip' for rows of zeros)")


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name}={value!r}: expected one of {', '.join(map(repr, choices))}")
