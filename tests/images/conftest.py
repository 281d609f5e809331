from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from threadpoolctl import threadpool_limits

from pictures import encoded, textured


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
