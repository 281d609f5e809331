"""Tables: which columns are features, which hold vectors, labels and ids."""

import re
import warnings
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Any

from numpy.typing import NDArray

from nearkin.validation.parameters import shown

LABELS = ("label", "y")  # columns that hold the labels if no other is named
IDS = ("id", "_id", "doc_id", "docid", "rowid", "__index_level_0__")  # the last by pandas
_ID = re.compile(
    r"(?i:(.*[\W_])?(id|idx|index|rowid)|unnamed: 0|__index_level_\d+__|)|.*[a-z](Id|ID)"
)
COUNTED = 5  # rows from which on values that count up in ones are no coincidence


@dataclass(frozen=True)
class Dataset:
    """Rows, and their labels and ids if there are any."""

    rows: NDArray[Any]
    labels: NDArray[Any] | None = None
    ids: NDArray[Any] | None = None


@dataclass(frozen=True)
class Places:
    """The places of a table's columns: of labels and ids, if there are any, and of features."""

    label: int | None
    id: int | None
    features: list[int]
    vectors: bool = False  # the features are one column of lists

    @property
    def named(self) -> list[int]:
        """Those of labels and ids."""
        return [place for place in (self.label, self.id) if place is not None]

    @property
    def used(self) -> list[int]:
        """All of them, in order."""
        return sorted({*self.features, *self.named})


@dataclass(frozen=True)
class Columns:
    """The columns that were chosen: of labels, features (names or patterns), vectors and ids.

    A pattern is one of `fnmatch`, such as ``x*``; with a ``-`` in front it leaves columns out.
    """

    label: str | None = None
    features: Sequence[str] | None = None
    vector: str | None = None
    id: str | None = None

    def places(self, source: str, names: Sequence[str], lists: Collection[int] = ()) -> Places:
        """Where these columns are, in a table with lists of numbers at the places `lists`."""
        if self.vector is not None and self.features is not None:
            raise ValueError(
                f"columns={shown(self.features)} and vector_column={self.vector!r} both say "
                "where the features are; give one of them"
            )
        label = self._label(source, names)
        id_ = None if self.id is None else _place(source, names, "id_column", self.id)
        free = [i for i in range(len(names)) if i not in (label, id_)]
        chosen = self._chosen(source, names, free)
        vectors = [i for i in chosen if i in lists]
        if self.vector is not None and not vectors:
            raise ValueError(
                f"vector_column={self.vector!r} of {source} does not hold lists of numbers; name "
                "a column that does, or leave it out for one column per dimension"
            )
        if not vectors:
            return Places(label, id_, chosen)
        if len(vectors) > 1:
            held = _some([names[i] for i in vectors])
            raise ValueError(f"{source} has several columns of vectors: {held}; name one of them "
                             "as the vector column")  # fmt: skip
        if self.id is None:
            likely = [i for i in free if names[i].lower() in IDS and i not in vectors]
            id_ = likely[0] if len(likely) == 1 else None
        places = Places(label, id_, vectors, vectors=True)
        self._say_guesses(source, names, places)
        return places

    def _say_guesses(self, source: str, names: Sequence[str], places: Places) -> None:
        found = {"vectors": (self.vector, places.features[0]), "ids": (self.id, places.id),
                 "labels": (self.label, places.label)}  # fmt: skip
        guessed = [
            f"{what} are read from column {names[place]!r}"
            for what, (given, place) in found.items()
            if given is None and place is not None
        ]
        if guessed:
            warnings.warn(f"{source}: {', '.join(guessed)}", stacklevel=2)

    def _chosen(self, source: str, names: Sequence[str], free: list[int]) -> list[int]:
        chosen = free
        if self.vector is not None:
            return [_place(source, names, "vector_column", self.vector)]
        if self.features is not None:
            chosen = [i for i in free if self._is_chosen(names[i], names)]
            for pattern in self.features:
                if not any(_matches(pattern.removeprefix("-"), name) for name in names):
                    raise ValueError(
                        f"columns={shown(pattern)} is no column of {source}, which has "
                        f"{_some(names)}"
                    )
        if not chosen:
            raise ValueError(
                f"{source} has no column besides the labels and ids; one column per dimension, or "
                "one of vectors, is needed"
            )
        return chosen

    def _label(self, source: str, names: Sequence[str]) -> int | None:
        taken = (*(self.features or ()), self.vector, self.id)
        free = (name for name in LABELS if name in names and name not in taken)
        label = self.label if self.label is not None else next(free, None)
        return None if label is None else _place(source, names, "label_column", label)

    def _is_chosen(self, name: str, names: Sequence[str]) -> bool:
        patterns = self.features or ()
        out = [p[1:] for p in patterns if p.startswith("-") and p not in names]
        wanted = [p for p in patterns if not p.startswith("-") or p in names] or ["*"]
        return any(_matches(p, name) for p in wanted) and not any(_matches(p, name) for p in out)

    def check_id(self, source: str, name: str, values: Any) -> None:
        """Refuse integers that tell rows apart as a feature, unless columns were chosen."""
        if self.features is None and is_id(name, values):
            raise ValueError(
                f"column {name!r} of {source} looks like an id: every row has another integer in "
                f"it; name it as the id column, leave it out with the columns '-{name}', or keep "
                "it as a feature with '*'"
            )


def _place(source: str, names: Sequence[str], argument: str, name: str) -> int:
    """The place of a column that an argument names."""
    if name not in names:
        raise ValueError(f"{argument}={shown(name)} is no column of {source}, which has "
                         f"{_some(names)}")  # fmt: skip
    if names.count(name) > 1:
        raise ValueError(f"{source} has {names.count(name)} columns named {name!r}, so it is not "
                         "known which is meant; rename the others")  # fmt: skip
    return names.index(name)


def _matches(pattern: str, name: str) -> bool:
    return pattern == name or fnmatchcase(name, pattern)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:20])


def is_id(name: str, values: Any) -> bool:
    """Whether integers are all different, and named like an id or count up in ones.

    Examples
    --------
    >>> is_id("user_id", [7, 3, 9]), is_id("pixel", [7, 3, 9]), is_id("pixel", range(4, 10))
    (True, False, True)
    """
    if _ID.fullmatch(name):
        return len(values) > 1 and len(set(values)) == len(values)
    start = values[:COUNTED]
    return len(start) == COUNTED and counts_up(start) and counts_up(values)


def may_be_id(name: str, start: Sequence[int]) -> bool:
    """Whether a column that starts like this can be one of ids; most columns end here."""
    return _ID.fullmatch(name) is not None or counts_up(start)


def counts_up(values: Iterable[int]) -> bool:
    """Whether integers count up in ones."""
    return all(int(b) - int(a) == 1 for a, b in pairwise(values))
