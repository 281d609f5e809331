"""Image files to arrays: upright, opaque, 8 bits, whatever the format."""

import io
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nearkin.validation import expect
from nearkin.validation.extras import missing_extra
from nearkin.validation.parameters import checked

if TYPE_CHECKING:
    from PIL.Image import Image

Source: TypeAlias = str | os.PathLike[str] | bytes

# Other formats of Pillow are left out on purpose: an EPS file, for example, runs Ghostscript.
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "TIFF", "GIF")
MAX_PIXELS = 100_000_000


class ImageError(ValueError):
    """An image that cannot be used; the message is the reason."""


@checked(max_side=expect.optional(expect.whole(1)))
def read_grey(source: Source, max_side: int | None = None) -> NDArray[np.uint8]:
    """Decode to grey, H×W; the longer side is shrunk to `max_side`, never enlarged.

    Examples
    --------
    >>> import io
    >>> from PIL import Image
    >>> file = io.BytesIO()
    >>> Image.new("RGB", (600, 200), "white").save(file, "PNG")
    >>> image = read_grey(file.getvalue(), max_side=300)
    >>> image.shape, int(image.min())
    ((100, 300), 255)
    """
    return _read(source, "L", max_side, lambda image: _shrink(image, max_side))


@checked(max_side=expect.optional(expect.whole(1)))
def read_colour(source: Source, max_side: int | None = None) -> NDArray[np.uint8]:
    """Decode to colour, H×W×3; the longer side is shrunk to `max_side`, never enlarged."""
    return _read(source, "RGB", max_side, lambda image: _shrink(image, max_side))


def read_window(
    source: Source, size: tuple[int, int], crop: float = 1.0, mode: str = "RGB"
) -> NDArray[np.uint8]:
    """Decode to `mode` (RGB or L), exactly `size` (height, width).

    The largest centred window with the proportions of `size`, less the share `1 - crop` of its
    sides, is resized in one step.
    """
    return _read(source, mode, max(size), lambda image: _fit(image, size, crop))


def _read(
    source: Source, mode: str, side: int | None, resize: Callable[["Image"], "Image"]
) -> NDArray[np.uint8]:
    pillow = _pillow()
    try:
        image = _decode(pillow, source, side)
        # Transparency last: compositing is cheaper on the resized image.
        image = resize(image if image.mode == "RGBA" else image.convert(mode))
        return np.asarray(_on_white(pillow, image).convert(mode))
    except ImageError:
        raise
    except Exception as error:  # decoders raise any exception on damaged files
        raise ImageError(_reason(error)) from error


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise missing_extra("reading images", "Pillow", "images") from error
    return Image


def _reason(error: Exception) -> str:
    if type(error).__name__ == "UnidentifiedImageError":
        return f"not an image that can be read ({', '.join(FORMATS)})"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def _decode(pillow: Any, source: Source, side: int | None) -> "Image":
    """Open, refuse decompression bombs, decode, rotate upright, convert to 8 bits."""
    if not isinstance(source, bytes) and os.path.exists(source) and not os.path.isfile(source):
        raise ImageError("not a regular file")  # a pipe would wait for a writer
    file = io.BytesIO(source) if isinstance(source, bytes) else source
    with pillow.open(file, formats=FORMATS) as image:
        width, height = image.size
        if width * height > MAX_PIXELS:
            raise ImageError(f"{width}×{height} pixels, more than {MAX_PIXELS:,}")
        if side is not None:
            # JPEG decodes at a half, quarter or eighth for little; keep twice the wanted side.
            image.draft(None, (2 * side, 2 * side))
        image.load()
        return _eight_bits(pillow, _upright(image))


def _upright(image: "Image") -> "Image":
    from PIL import ImageOps

    try:
        return ImageOps.exif_transpose(image)
    except Exception:  # unreadable EXIF: the pixels are still good
        return image


def _eight_bits(pillow: Any, image: "Image") -> "Image":
    """To L, RGB or, if some of it is transparent, RGBA."""
    if image.mode == "F" or image.mode.startswith("I"):
        grey: Image = pillow.fromarray(_rescale(np.asarray(image)))
        return grey
    if image.has_transparency_data:
        return image.convert("RGBA")
    return image if image.mode == "L" else image.convert("RGB")


def _on_white(pillow: Any, image: "Image") -> "Image":
    if image.mode != "RGBA":
        return image
    white = pillow.new("RGBA", image.size, "white")
    flat: Image = pillow.alpha_composite(white, image).convert("RGB")
    return flat


def _rescale(values: NDArray[Any]) -> NDArray[np.uint8]:
    """16-bit integers, or floats in [0, 1], to 0…255; Pillow would clip them."""
    top = 1.0 if values.dtype.kind == "f" else 65535.0
    low, high = float(values.min()), float(values.max())
    if not (low >= 0 and high <= top):
        raise ImageError(f"values from {low:g} to {high:g}, expected 0 to {top:g}")
    return np.rint(values * (255.0 / top)).astype(np.uint8)


def _shrink(image: "Image", max_side: int | None) -> "Image":
    longest = max(image.size)
    if max_side is None or longest <= max_side:
        return image
    width, height = (max(1, round(side * max_side / longest)) for side in image.size)
    return image.resize((width, height), resample=_pillow().Resampling.BICUBIC)


def _fit(image: "Image", size: tuple[int, int], crop: float) -> "Image":
    height, width = size
    scale = crop * min(image.width / width, image.height / height)
    # Rounding must not move the window out of the image.
    left = max(0.0, (image.width - width * scale) / 2)
    top = max(0.0, (image.height - height * scale) / 2)
    box = (left, top, image.width - left, image.height - top)
    return image.resize((width, height), resample=_pillow().Resampling.BICUBIC, box=box)
