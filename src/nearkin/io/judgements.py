"""Files of judgements: TREC qrels, and tables with tabs as BEIR has them."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.io.files import read_lines

_GRADES = ("grade", "label", "rel", "relevance", "score")  # last cells of a header
_EXPECTED = "lines of query id, 0, document id and grade (TREC), or the same with tabs without 0"


def read_judgements(path: Path, queries: ArrayLike, documents: ArrayLike) -> NDArray[np.int64]:
    """Query row, document row and grade of each line; `queries` and `documents` are the ids."""
    query_rows, document_rows = _rows(queries, "queries"), _rows(documents, "documents")
    found: dict[tuple[int, int], int] = {}
    for line, query, document, grade in _entries(path):
        pair = (_row(query_rows, query, f"{line} names query", "queries"),
                _row(document_rows, document, f"{line} names document", "documents"))  # fmt: skip
        if pair in found:
            raise ValueError(f"{line} grades document {document!r} for query {query!r} again; keep "
                             "one grade")  # fmt: skip
        found[pair] = grade
    if not found:
        raise ValueError(f"{path} holds no judgements; {_EXPECTED} are expected")
    return np.array([(*pair, grade) for pair, grade in found.items()], np.int64)


def _entries(path: Path) -> Iterator[tuple[str, str, str, int]]:
    """The name of each line for messages, query id, document id and grade."""
    width = 0
    for number, text in enumerate(read_lines(path, _EXPECTED), start=1):
        cells = [c.strip() for c in text.split("\t")] if "\t" in text else text.split()
        if not cells or (number == 1 and cells[-1].lower() in _GRADES):
            continue
        line, width = f"line {number} of {path}", width or len(cells)
        if len(cells) != width or width not in (3, 4):
            raise ValueError(f"{line} holds {len(cells)} cells, {text!r:.60}; {_EXPECTED} are "
                             "expected")  # fmt: skip
        try:
            grade = int(cells[-1])
            np.int64(grade)
        except (ValueError, OverflowError):
            raise ValueError(f"{line} holds the grade {cells[-1]!r:.40}; a whole number is "
                             "expected") from None  # fmt: skip
        yield line, cells[0], cells[-2], grade


def _rows(ids: ArrayLike, name: str) -> dict[str, int]:
    """The row of each id, as text."""
    array = np.asarray(ids)
    if array.ndim != 1 or array.dtype.kind not in "iuUO":
        raise ValueError(f"{name} has shape {array.shape} and type {array.dtype}; a list of ids, "
                         "numbers or text, is expected")  # fmt: skip
    texts = [str(one) for one in array.tolist()]
    rows = dict(zip(texts, range(len(texts))))
    if len(rows) < len(texts):
        again = Counter(texts).most_common(1)[0][0]
        raise ValueError(f"{name} holds the id {again!r} twice; ids that differ are expected")
    return rows


def _row(rows: dict[str, int], id_: str, about: str, name: str) -> int:
    row = rows.get(id_)
    if row is None:
        raise ValueError(
            f"{about} {id_!r:.60}, which is none of the {len(rows)} ids in {name}, such as "
            f"{next(iter(rows), None)!r:.60}; drop the line, or add what it names"
        )
    return row
