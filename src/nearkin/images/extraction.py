"""Images to rows of features: in parallel, resumable, with every unreadable file reported."""

import hashlib
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from nearkin.images.folder import ImageFolder, sources_of
from nearkin.images.reading import Source
from nearkin.images.store import Failures, Sink, open_store
from nearkin.io.fingerprint import FileDigest, TextDigest
from nearkin.io.progress_bar import track
from nearkin.io.run_folder import RunFolder, as_run_folder
from nearkin.native.threads import limited_libraries
from nearkin.validation import expect
from nearkin.validation.containers import in_container
from nearkin.validation.parameters import checked

Failed: TypeAlias = list[tuple[str, str]]  # path, reason
Chunk: TypeAlias = tuple[int, int, Failures, NDArray[Any] | None]

SHOWN = 20


class UnreadableImages(ValueError):
    """Images that could not be used; `failed` lists every (path, reason)."""

    def __init__(self, failed: Failed, total: int, advice: str = "") -> None:
        self.failed = failed
        shown = [f"  {name}: {reason}" for name, reason in failed[:SHOWN]]
        if len(failed) > SHOWN:
            shown.append(f"  … and {len(failed) - SHOWN} more")
        text = f"{len(failed)} of {total} images could not be used{advice}:"
        super().__init__("\n".join([text, *shown]))


class ImageEncoder(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC,
    auto_wrap_output_keys=None,  # type: ignore[call-arg]
):  # fmt: skip
    """An estimator that turns images into rows of features; a base class.

    Attributes
    ----------
    failed_ : list of (path, reason)
        Images that could not be used.
    """

    failed_: Failed

    @abstractmethod
    def encode(self, images: Sequence[Source]) -> tuple[NDArray[np.float32], Failures]:
        """Features of a few images, zero for those that failed, and why they did."""

    @abstractmethod
    def chunk_shape(self) -> tuple[int, int]:
        """Images that a worker takes at a time, and the length of a feature vector."""

    @property
    def _n_features_out(self) -> int:
        """Length of a feature vector, for the names of its entries."""
        return self.chunk_shape()[1]

    @abstractmethod
    def inputs(self) -> dict[str, Any]:
        """What the features depend on beside the images."""

    @checked(
        out=expect.optional(expect.path),
        dtype=expect.choice("float32", "float16"),
        n_jobs=expect.jobs,
        on_error=expect.choice("raise", "skip"),
    )
    def transform(
        self,
        images: ImageFolder | Sequence[Source],
        *,
        out: str | os.PathLike[str] | None = None,
        folder: str | os.PathLike[str] | RunFolder | None = None,
        dtype: str = "float32",
        n_jobs: int | None = None,
        on_error: str = "raise",
    ) -> NDArray[Any]:
        """Features of images, one row per image.

        The features do not depend on `n_jobs` or on how often the call was interrupted.

        Parameters
        ----------
        images : ImageFolder, or sequence of paths or of the bytes of image files
            What to encode.
        out : path ending in ``.npy``, or None
            File to write to, returned as a memory map; None keeps the features in memory.
        folder : path or nearkin.RunFolder, optional
            Keeps the features instead, for work that is too costly to lose: an interrupted call,
            repeated, resumes, and what is finished is found again.
        dtype : "float32" or "float16"
            Type of the features.
        n_jobs : int or None
            Number of processes.
        on_error : "raise" or "skip"
            What to do, after everything else is done, about images that cannot be read: raise one
            `UnreadableImages` that lists them, or warn, leave their rows zero and list them in
            `failed_`. A later call with the same `folder` tries them again.

        Returns
        -------
        array of shape (n_images, n_features)
        """
        check_is_fitted(self)
        sources = sources_of(images)
        chunk, width = self.chunk_shape()
        run, inputs = as_run_folder(folder), {**self.inputs(), "images": fingerprint(sources)}
        failures: Failures = {}

        def digest(start: int) -> str:
            return contents(sources[start : start + chunk])

        with open_store(out, run, (len(sources), width), dtype, chunk, inputs, digest) as store:
            starts = np.unique(np.flatnonzero(~store.done) // chunk) * chunk
            # No memory mapping of arguments: compiled code would be compiled again for read-only
            # arrays.
            parallel = Parallel(n_jobs=n_jobs, max_nbytes=None, return_as="generator_unordered")
            finished = parallel(
                delayed(_encode_chunk)(
                    self, _absolute(sources[lo : lo + chunk]), lo, store.sink, dtype
                )
                for lo in starts.tolist()
            )
            for start, stop, failed, values in track(finished, "features", total=len(starts)):
                store.record(start, stop, values)
                failures.update(failed)
            self.failed_ = [(name_of(sources[row]), failures[row]) for row in sorted(failures)]
            _report(self.failed_, len(sources), on_error, kept=run.durable)
            store.finish(failures)
        return in_container(self, store.rows, images)


def name_of(source: Source) -> str:
    """What to call an image in a message."""
    return f"<{len(source)} bytes>" if isinstance(source, bytes) else os.fspath(source)


def fingerprint(sources: Sequence[Source]) -> TextDigest:
    """A digest of which images these are, in which order; `contents` is of what files hold."""
    digest = hashlib.sha256()
    for source in sources:
        data = source if isinstance(source, bytes) else os.fsencode(os.path.abspath(source))
        digest.update(hashlib.sha256(data).digest())
    return TextDigest(digest.hexdigest())


def contents(sources: Sequence[Source]) -> str:
    """A digest of what files hold: one of equal size and time may have replaced another."""
    paths = [source for source in _absolute(sources) if not isinstance(source, bytes)]
    return str(FileDigest(*paths))


def _absolute(sources: Sequence[Source]) -> list[Source]:
    """For workers: they outlive a call, and stay in the working folder that they began in."""
    return [s if isinstance(s, bytes) else os.path.abspath(s) for s in sources]


def _encode_chunk(
    encoder: ImageEncoder, sources: Sequence[Source], start: int, sink: Sink | None, dtype: str
) -> Chunk:
    """Encode images from row `start` on; runs in a worker."""
    before = contents(sources) if sink is not None and sink.folder.durable else ""
    # One thread of BLAS: the processes are the parallelism, and sums keep their order.
    with limited_libraries(1):
        values, failed = encoder.encode(sources)
    values = values.astype(dtype)
    failed = {start + i: reason for i, reason in failed.items()}
    if sink is None:
        return start, start + len(sources), failed, values
    sink.write(start, values, failed, before)
    return start, start + len(sources), failed, None


def _report(failed: Failed, total: int, on_error: str, kept: bool) -> None:
    if not failed:
        return
    if on_error == "skip":
        warnings.warn(str(UnreadableImages(failed, total, " and have rows of zeros")), stacklevel=4)
        return
    resume = "the other rows are kept: repair these and run again, or " if kept else ""
    raise UnreadableImages(failed, total, f" ({resume}pass on_error='skip' for rows of zeros)")
