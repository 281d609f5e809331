"""Encoding of images, with unreadable ones reported or skipped."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray


def encode(
    encoder: Any, images: Any, skip: bool, **options: Any
) -> tuple[NDArray[Any], NDArray[Any]]:
    """One row per image, and a mask of readable images; without `skip`, all must be readable."""
    from nearkin.images import UnreadableImages

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
