"""Encoding of images, with unreadable ones reported or skipped."""

import os
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray


def check_names(images: Any) -> None:
    """Refuse, before extraction, names that no list, report or model could hold after it."""
    names = {*getattr(images, "paths", images), *getattr(images, "labels", ())}
    for name in sorted(names):
        try:
            name.encode()
        except UnicodeEncodeError:
            raise ValueError(f"the name {os.fsencode(name)!r} is not UTF-8; rename it") from None
        if "\n" in name or "\r" in name:
            raise ValueError(
                f"the name {name!r} holds a line break, which no file of labels or paths can hold; "
                "rename it"
            )


def encode(
    encoder: Any, images: Any, skip: bool, **options: Any
) -> tuple[NDArray[Any], NDArray[Any]]:
    """One row per image, and a mask of readable images; without `skip`, all must be readable."""
    from nearkin.images import UnreadableImages

    check_names(images)
    names = list(getattr(images, "paths", images))
    with warnings.catch_warnings():
        # The encoder's own warning is about rows of zeros, which callers leave out.
        warnings.filterwarnings("ignore", ".*images could not be used and have rows of zeros")
        try:
            rows = encoder.transform(images, on_error="skip" if skip else "raise", **options)
        except UnreadableImages as error:
            advice = " (repair them and run again, or give --skip-unreadable to leave them out)"
            raise UnreadableImages(error.failed, len(names), advice) from None
    unreadable = {name for name, _ in encoder.failed_}
    if unreadable:
        message = UnreadableImages(encoder.failed_, len(names), " and are left out")
        warnings.warn(str(message), stacklevel=2)
    return rows, np.array([name not in unreadable for name in names], dtype=bool)
