"""Ids of a model's rows, as a model file can hold and map them: numbers, or the bytes of text."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Packed = NDArray[np.int64] | tuple[NDArray[np.uint8], NDArray[np.int64]]


def pack(ids: NDArray[Any]) -> Packed:
    """Whole numbers as they are; text as UTF-8, with the place where each ends.

    Examples
    --------
    >>> text, ends = pack(np.array(["a", "été"]))
    >>> text.tobytes().decode(), ends.tolist()
    ('aété', [1, 6])
    """
    if ids.dtype.kind in "iub":
        return ids.astype(np.int64)
    encoded = [str(one).encode() for one in ids]
    ends = np.cumsum([len(one) for one in encoded], dtype=np.int64)
    return np.frombuffer(b"".join(encoded), np.uint8), ends


class RowIds:
    """The ids of rows, from their packed form; rows that were added later have none.

    Examples
    --------
    >>> ids = RowIds(pack(np.array(["a", "été"])), n_rows=3)
    >>> ids[0], ids[1], ids[2]
    ('a', 'été', None)
    """

    def __init__(self, packed: Any, n_rows: int) -> None:
        text, ends = packed if isinstance(packed, tuple) and len(packed) == 2 else (None, packed)
        self._text, self._ends = text, ends
        arrays = [ends] if text is None else [text, ends]
        flat = all(isinstance(a, np.ndarray) and a.ndim == 1 for a in arrays)
        if not flat or ends.dtype != np.int64 or len(ends) > n_rows or not self._is_within():
            raise ValueError(
                f"ids_ of the model is not one id for each of its {n_rows} rows; train it again"
            )

    def _is_within(self) -> bool:
        if self._text is None:
            return True
        steps = np.diff(self._ends, prepend=0)
        last = self._ends[-1] if len(self._ends) else 0
        return self._text.dtype == np.uint8 and (steps >= 0).all() and last == len(self._text)

    def __getitem__(self, row: int) -> int | str | None:
        if row >= len(self._ends):
            return None
        end = int(self._ends[row])
        if self._text is None:
            return end
        start = int(self._ends[row - 1]) if row else 0
        return self._text[start:end].tobytes().decode(errors="replace")
