"""Image files to arrays: upright, opaque, 8 bits, whatever the file held."""

import io
import os
import warnings
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image

Source: TypeAlias = str | os.PathLike[str] | bytes

# Anything else Pillow can open is left out on purpose: an EPS file, for one, runs Ghostscript.
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "TIFF", "GIF")
MAX_PIXELS = 100_000_000


class ImageError(ValueError):
    """An image that cannot be used; the message is the reason."""


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
    return _read(source, "L", max_side)


def read_rgb(source: Source, size: tuple[int, int], crop: float = 1.0) -> NDArray[np.uint8]:
    """Decode to RGB, H×W×3 of exactly `size` (height, width).

    The largest centred window with the proportions of `size`, less the share `1 - crop` of its
    border, is resized in one go, so that no part of it is interpolated twice.
    """
    return _read(source, "RGB", None, size, crop)


def _read(
    source: Source,
    mode: str,
    max_side: int | None,
    size: tuple[int, int] | None = None,
    crop: float = 1.0,
) -> NDArray[np.uint8]:
    pillow = _pillow()
    try:
        with warnings.catch_warnings():
            # Damaged metadata and sizes below the limit are no reason to speak up.
            warnings.simplefilter("ignore")
            image = _decode(pillow, source, max_side or max(size or (0,)))
            image = image.convert(mode)
            image = _fit(image, size, crop) if size else _shrink(image, max_side)
            return np.asarray(image)
    except ImageError:
        raise
    except Exception as error:  # decoders raise anything at all on damaged files
        raise ImageError(_reason(error)) from error


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError(
            "reading images needs Pillow: pip install 'nearkin[images]'"
        ) from error
    return Image


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = str(error).split("<_io.BytesIO")[0].strip()
    return text or type(error).__name__


def _decode(pillow: Any, source: Source, wanted_side: int) -> "Image":
    """Open, refuse bombs, decode, turn upright, bring to L or RGB."""
    from PIL import ImageOps

    file = io.BytesIO(source) if isinstance(source, bytes) else source
    with pillow.open(file, formats=FORMATS) as image:
        width, height = image.size
        if width * height > MAX_PIXELS:
            raise ImageError(f"{width}×{height} pixels, more than {MAX_PIXELS:,}")
        if wanted_side:
            # JPEG decodes at a half, quarter or eighth for little; keep twice the wanted side.
            image.draft(None, (2 * wanted_side, 2 * wanted_side))
        image.load()
        return _to_eight_bits(pillow, _upright(ImageOps, image))


def _upright(image_ops: Any, image: "Image") -> "Image":
    try:
        return image_ops.exif_transpose(image)
    except Exception:  # unreadable EXIF: the pixels are still good
        return image


def _to_eight_bits(pillow: Any, image: "Image") -> "Image":
    if image.mode == "F" or image.mode.startswith("I"):
        return pillow.fromarray(_rescale(np.asarray(image)))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = pillow.new("RGBA", image.size, "white")
        return pillow.alpha_composite(white, image).convert("RGB")
    return image if image.mode == "L" else image.convert("RGB")


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
    left = (image.width - width * scale) / 2
    top = (image.height - height * scale) / 2
    box = (left, top, left + width * scale, top + height * scale)
    return image.resize((width, height), resample=_pillow().Resampling.BICUBIC, box=box)
