"""The paper's Figure 3: a query and its neighbours, before and after learning, as pictures."""

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.app import report
from nearkin.images.reading import ImageError, Source, read_colour

SIDE = 256  # pixels of the longer side of an enlarged picture


class Picture(NamedTuple):
    """An image file (or its bytes), its label, and how similar it is to the query."""

    image: Source
    label: str
    score: float | None = None

    @property
    def caption(self) -> report.Caption:
        """What stands below it."""
        name = "" if isinstance(self.image, bytes) else os.path.basename(os.fspath(self.image))
        return report.Caption(self.label, self.score, name)


def strip_html(
    query: Picture, neighbors: Mapping[str, Sequence[Picture]], *, mark: bool = True
) -> str:
    """The query with its neighbours by one or several similarities, right and wrong ones marked.

    The pictures are embedded; the styles are those of `nearkin.app.report.write_page`. An
    unreadable image is shown as a grey square. ``mark=False`` is for a query without a label.

    Examples
    --------
    >>> import io
    >>> from PIL import Image
    >>> file = io.BytesIO()
    >>> Image.new("RGB", (60, 40), "red").save(file, "PNG")
    >>> cat, dog = Picture(file.getvalue(), "cat"), Picture(file.getvalue(), "dog")
    >>> page = strip_html(cat, {"raw cosine": [dog, cat], "learned": [cat, cat]})
    >>> page.count('class="right"'), page.count('class="wrong"'), page.count("data:image/jpeg")
    (3, 1, 5)
    """
    strips = "".join(
        report.strip(
            name,
            [_pixels(hit.image) for hit in hits],
            [hit.label == query.label if mark else None for hit in hits],
            [hit.caption for hit in hits],
        )
        for name, hits in neighbors.items()
    )
    return report.query(_pixels(query.image), query.caption, strips)


def _pixels(source: Source) -> NDArray[np.uint8]:
    try:
        return read_colour(source, SIDE)
    except ImageError:
        return np.full((SIDE, SIDE, 3), 200, np.uint8)


def most_changed(plain_right: ArrayLike, learned_right: ArrayLike, n: int) -> NDArray[np.int64]:
    """The `n` queries that learning helped most; with a negative `n`, those it harmed most.

    Queries whose two lists are equally good are never among them.

    Parameters
    ----------
    plain_right, learned_right : (m, k) bool arrays
        Whether each neighbour has the query's label.

    Examples
    --------
    >>> plain, learned = [[True, False], [False, False], [True, True]], [[True, True]] * 3
    >>> most_changed(plain, learned, 5).tolist(), most_changed(plain, learned, -5).tolist()
    ([1, 0], [])
    """
    gain = np.asarray(learned_right, int).sum(axis=1) - np.asarray(plain_right, int).sum(axis=1)
    gain = gain if n >= 0 else -gain
    order = np.argsort(-gain, kind="stable")[: abs(n)]
    return order[gain[order] > 0]
