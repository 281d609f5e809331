"""Real image bytes, made on the spot."""

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from threadpoolctl import threadpool_limits


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


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Threads that wait for each other on a few rows are slow where cores are busy."""
    with threadpool_limits(1):
        yield


@pytest.fixture
def picture_folder(tmp_path: Path) -> Callable[..., Path]:
    """Make a folder of classes with a few images each."""

    def make(classes: int = 2, images: int = 3) -> Path:
        root = tmp_path / "pictures"
        for c in range(classes):
            (root / f"class {c}").mkdir(parents=True)
            for i in range(images):
                data = encoded(textured(100 * c + i), "JPEG")
                (root / f"class {c}" / f"image_{i:03d}.jpg").write_bytes(data)
        return root

    return make
