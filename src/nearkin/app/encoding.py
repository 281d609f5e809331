"""Images to rows, where those that cannot be read are left out."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray


def encode(encoder: Any, images: Any, skip: bool, **how: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """A row an image, and which of the rows are of use; without `skip`, all or an error."""
    from nearkin.images import UnreadableImages

    names = list(getattr(images, "paths", images))
    with warnings.catch_warnings():
        # What is said there is for those who keep the rows of zeros.
        warnings.filterwarnings("ignore", ".*images could not be used and have rows of zeros")
        try:
            rows = encoder.transform(images, on_error="skip" if skip else "raise", **how)
        except UnreadableImages as error:
            advice = " (mend them and run again, or give --skip-unreadable to leave them out)"
            raise UnreadableImages(error.failed, len(names), advice) from None
    lost = {name for name, _ in encoder.failed_}
    if lost:
        told = UnreadableImages(encoder.failed_, len(names), " and are left out")
        warnings.warn(str(told), stacklevel=2)
    return rows, np.array([name not in lost for name in names], dtype=bool)
