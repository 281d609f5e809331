"""From a description of an index to the index."""

import math
from typing import Any

from nearkin.neighbors.base import Array, Index
from nearkin.neighbors.cells import Cells
from nearkin.neighbors.exact import Exact
from nearkin.neighbors.faiss import Factory

RECALL = 0.95
EXACT_ROWS = 100_000  # up to here "auto" is exact


def check_index(description: Any) -> None:
    """Refuse what describes no index; strings for faiss are left to faiss, when it is built."""
    if not isinstance(description, str):
        raise ValueError(
            f"index={description!r} must be a string: 'auto', 'exact', 'cells' or a faiss factory"
        )
    name, _, setting = description.partition(";")
    if name == "exact" and setting:
        raise ValueError(
            f"index={description!r}: 'exact' takes no settings; use 'exact', or "
            "'cells;recall=0.9' for an approximate search"
        )
    if name in ("auto", "cells"):  # for few rows, too, where "auto" has no use for a recall
        _recall(description)


def kind_of(description: Any, n: int) -> type[Index]:
    """The back end that a description names, for `n` rows."""
    check_index(description)
    name = description.partition(";")[0]
    if name == "auto":
        return Exact if n <= EXACT_ROWS else Cells
    kinds: dict[str, type[Index]] = {"exact": Exact, "cells": Cells}
    return kinds.get(name, Factory)


def build(rows: Array, description: str) -> Index:
    """Make `rows` ready to be searched."""
    kind = kind_of(description, len(rows))
    if kind is Factory:
        return Factory(rows, description)
    return Cells(rows, _recall(description)) if kind is Cells else Exact(rows)


def _recall(description: str) -> float:
    kind, _, setting = description.partition(";")
    name, _, value = setting.partition("=")
    try:
        recall = float(value) if setting else RECALL
    except ValueError:
        recall = math.nan
    if (setting and name != "recall") or not 0 < recall < 1:
        raise ValueError(
            f"index={description!r}: {kind!r} takes one setting, a recall between 0 and 1, such as "
            f"'{kind};recall=0.9'"
        )
    return recall
