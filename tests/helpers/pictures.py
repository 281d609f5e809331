"""Real image bytes, made on the spot."""

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image


def encoded(image: Image.Image | NDArray[Any], fmt: str = "PNG", **options: Any) -> bytes:
    """The bytes of an image file."""
    if not isinstance(image, Image.Image):
        image = Image.fromarray(image)
    file = io.BytesIO()
    image.save(file, fmt, **options)
    return file.getvalue()


def textured(seed: int, height: int = 72, width: int = 96) -> NDArray[np.uint8]:
    """Smooth noise: something for gradients to bite on, and that survives JPEG."""
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 256, (height // 8 + 1, width // 8 + 1), dtype=np.uint8)
    return np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC))
