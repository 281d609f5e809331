"""Bad values, by what an argument is for, each with what must become of it.

``same``: another form of the clean value, with the same answer, or refused. ``refuse``: no answer
but the clean one (the argument plays no part). ``any``: a value of its own.
"""

import datetime
import itertools
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

_NUMBERS = itertools.count()
Make = Callable[[Any, np.random.Generator], Any]


class Attack(NamedTuple):
    """A way to spoil a clean value."""

    name: str
    make: Make
    expects: str


def _constant(value: Any) -> Make:
    return lambda clean, rng: value


def _entry(value: Any, dtype: Any = None) -> Make:
    """One entry of an array replaced."""

    def make(clean: Any, rng: np.random.Generator) -> Any:
        array = np.array(clean, dtype=dtype)
        array.flat[rng.integers(array.size)] = value
        return array

    return make


def _strided(clean: Any, rng: Any) -> Any:
    array = np.asarray(clean)
    wide = np.zeros((array.shape[0] * 2, *array.shape[1:]), array.dtype)
    wide[::2] = array
    return wide[::2]


def _mapped(clean: Any, rng: Any) -> Any:
    name = f"mapped-{next(_NUMBERS)}.npy"
    np.save(name, np.asarray(clean))
    return np.load(name, mmap_mode="r")


def _read_only(clean: Any, rng: Any) -> Any:
    array = np.array(clean)
    array.flags.writeable = False
    return array


def _unaligned(clean: Any, rng: Any) -> Any:
    array = np.asarray(clean)
    raw = np.zeros(array.nbytes + 1, np.uint8)
    raw[1:] = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
    return raw[1:].view(array.dtype).reshape(array.shape)


def _frame(clean: Any, rng: Any) -> Any:
    import pandas as pd

    forms = {1: pd.Series, 2: pd.DataFrame}
    return forms.get(np.ndim(clean), np.array)(clean)


def _ragged(clean: Any, rng: Any) -> Any:
    return [list(row)[: 1 + i % 3] for i, row in enumerate(np.asarray(clean).tolist())]


# Another form of the same array.
FORMS = [
    Attack("list", lambda c, r: np.asarray(c).tolist(), "same"),
    Attack("fortran", lambda c, r: np.asfortranarray(c), "same"),
    Attack("strided", _strided, "same"),
    Attack("mapped", _mapped, "same"),
    Attack("read-only", _read_only, "same"),
    Attack("unaligned", _unaligned, "same"),
    Attack("swapped bytes", lambda c, r: np.asarray(c).astype(np.asarray(c).dtype.newbyteorder()),
           "same"),
    Attack("frame", _frame, "same"),
]  # fmt: skip
WIDER = [
    Attack("float64", lambda c, r: np.asarray(c, np.float64), "same"),
    Attack("longdouble", lambda c, r: np.asarray(c, np.longdouble), "same"),
    Attack("objects", lambda c, r: np.asarray(c).astype(object), "same"),
    Attack("sparse", lambda c, r: sparse.csr_matrix(c), "same"),
]
# What is no array at all.
JUNK = [
    Attack(repr(v)[:20], _constant(v), "refuse")
    for v in ("x", b"x", {"a": 1}, {1, 2}, 1j, 5, float("nan"), Ellipsis, [[]], [], (), [None])
] + [
    Attack("object()", lambda c, r: object(), "refuse"),
    Attack("function", lambda c, r: len, "refuse"),
    Attack("generator", lambda c, r: (x for x in range(3)), "refuse"),
    Attack("type", lambda c, r: int, "refuse"),
    Attack("None", _constant(None), "any"),
]
ROWS = [
    *FORMS, *WIDER, *JUNK,
    Attack("nan", _entry(np.nan), "refuse"),
    Attack("inf", _entry(np.inf), "refuse"),
    Attack("-inf", _entry(-np.inf), "refuse"),
    Attack("1e39", _entry(1e39, np.float64), "refuse"),
    Attack("complex", _entry(1j, complex), "refuse"),
    Attack("dates", lambda c, r: np.asarray(c).astype(np.int64).astype("M8[D]"), "refuse"),
    Attack("durations", lambda c, r: np.asarray(c).astype(np.int64).astype("m8[s]"), "refuse"),
    Attack("text", _entry("cat", "U9"), "refuse"),
    Attack("None in it", _entry(None, object), "refuse"),
    Attack("bytes in it", lambda c, r: np.asarray(c).astype("S4"), "any"),
    Attack("records", lambda c, r: np.zeros(len(c), [("a", "f4"), ("b", "i4")]), "refuse"),
    Attack("one dimension", lambda c, r: np.asarray(c).ravel(), "refuse"),
    Attack("three dimensions", lambda c, r: np.asarray(c)[None, :, :, None], "refuse"),
    Attack("no rows", lambda c, r: np.asarray(c)[:0], "refuse"),
    Attack("no columns", lambda c, r: np.asarray(c)[:, :0], "refuse"),
    Attack("one row fewer", lambda c, r: np.asarray(c)[:-1], "any"),
    Attack("one column fewer", lambda c, r: np.asarray(c)[:, :-1], "any"),
    Attack("one column more", lambda c, r: np.c_[np.asarray(c), np.asarray(c)[:, :1]], "any"),
    Attack("masked", lambda c, r: np.ma.masked_less(c, np.median(c)), "any"),
    Attack("matrix", lambda c, r: np.asmatrix(c), "same"),
    Attack("ragged", _ragged, "refuse"),
    Attack("zeros", lambda c, r: np.zeros_like(c), "any"),
    Attack("one value", lambda c, r: np.full_like(c, 0.1), "any"),
    Attack("duplicates", lambda c, r: np.repeat(np.asarray(c)[:2], 30, axis=0)[: len(c)], "any"),
    Attack("bools", lambda c, r: np.asarray(c) > 0, "any"),
    Attack("huge", lambda c, r: np.asarray(c) * np.float32(1e30), "any"),
    Attack("tiny", lambda c, r: np.asarray(c) * np.float32(1e-30), "any"),
    Attack("subnormal", lambda c, r: np.asarray(c) * np.float32(1e-42), "any"),
    Attack("one huge", _entry(3e38), "any"),
    Attack("far away", lambda c, r: np.asarray(c) + np.float32(1e6), "any"),
    Attack("broadcast", lambda c, r: np.broadcast_to(np.asarray(c)[:1], np.shape(c)), "any"),
]  # fmt: skip
LABELS = [
    *FORMS, *JUNK,
    Attack("objects", lambda c, r: np.asarray(c).astype(object), "same"),
    Attack("int8", lambda c, r: np.asarray(c).astype(np.int8), "same"),
    Attack("uint64", lambda c, r: np.asarray(c).astype(np.uint64), "same"),
    Attack("column", lambda c, r: np.asarray(c)[:, None], "same"),
    Attack("one fewer", lambda c, r: np.asarray(c)[:-1], "refuse"),
    Attack("one more", lambda c, r: np.r_[np.asarray(c), 0], "refuse"),
    Attack("nan", _entry(np.nan, float), "refuse"),
    Attack("inf", _entry(np.inf, float), "refuse"),
    Attack("None in it", _entry(None, object), "any"),
    Attack("mixed", _entry("cat", object), "any"),
    Attack("two columns", lambda c, r: np.c_[c, c], "refuse"),
    Attack("continuous", lambda c, r: np.asarray(c) + r.random(len(c)), "refuse"),
    Attack("complex", lambda c, r: np.asarray(c) + 1j, "any"),
    Attack("one class", lambda c, r: np.zeros_like(c), "any"),
    Attack("all different", lambda c, r: np.arange(len(c)), "any"),
    Attack("huge", lambda c, r: np.asarray(c, np.int64) + 2**62, "any"),
    Attack("dates", lambda c, r: np.asarray(c).astype("M8[D]"), "any"),
    Attack("masked", lambda c, r: np.ma.masked_equal(c, 1), "any"),
    Attack("line breaks", lambda c, r: np.char.add(np.asarray(c).astype("U1"), "\n\0"), "any"),
    Attack("scalar", lambda c, r: np.asarray(c)[0], "refuse"),
]  # fmt: skip
LISTS = [
    *FORMS, *JUNK,
    Attack("int64", lambda c, r: np.asarray(c, np.int64), "same"),
    Attack("uint32", lambda c, r: np.asarray(c, np.uint32), "same"),
    Attack("floats", lambda c, r: np.asarray(c, float) + 0.5, "refuse"),
    Attack("objects", lambda c, r: np.asarray(c).astype(object), "same"),
    Attack("beyond by one", _entry(60), "refuse"),
    *(Attack(f"{v}", _entry(v, np.int64), "refuse")
      for v in (-2, -(2**31), 2**31 - 1, 2**32, 2**40, -(2**63))),
    Attack("unsigned -1", _entry(2**32 - 1, np.uint32), "refuse"),
    Attack("none", lambda c, r: np.full_like(c, -1), "any"),
    Attack("itself", lambda c, r: np.repeat(np.arange(len(c))[:, None], 5, 1), "any"),
    Attack("repeated", lambda c, r: np.zeros_like(c), "any"),
    Attack("masked", lambda c, r: np.ma.masked_greater(np.where(c > 50, 10**6, c), 60), "refuse"),
    Attack("one fewer", lambda c, r: np.asarray(c)[:-1], "refuse"),
    Attack("no columns", lambda c, r: np.asarray(c)[:, :0], "any"),
    Attack("one dimension", lambda c, r: np.asarray(c).ravel(), "refuse"),
    Attack("three dimensions", lambda c, r: np.asarray(c)[..., None], "refuse"),
    Attack("ragged", _ragged, "any"),
    Attack("text", lambda c, r: np.asarray(c).astype("U5"), "refuse"),
    Attack("bools", lambda c, r: np.asarray(c) > 5, "refuse"),
    Attack("graph too wide", lambda c, r: graph(c, columns=1000, shift=900), "refuse"),
    Attack("graph with bad indices", lambda c, r: graph(c, shift=10**6), "refuse"),
    Attack("graph with bad starts", lambda c, r: graph(c, last=10**7), "refuse"),
    Attack("graph with falling starts", lambda c, r: graph(c, last=-5), "refuse"),
    Attack("graph", lambda c, r: graph(c), "any"),
    Attack("neighborhoods", lambda c, r: hand_made(c), "refuse"),
]  # fmt: skip


def graph(lists: Any, columns: int | None = None, shift: int = 0, last: int | None = None) -> Any:
    """A CSR graph, spoiled after scipy has checked it."""
    n, k = np.shape(lists)
    starts = np.arange(0, n * k + 1, k)
    made = sparse.csr_matrix((np.ones(n * k), np.ravel(lists), starts), shape=(n, columns or n))
    made.indices = made.indices + np.int32(shift)
    if last is not None:
        made.indptr[-1 if last > 0 else n // 2] = last
    return made


def hand_made(lists: Any) -> Any:
    from nearkin.neighborhoods import Neighborhoods

    n, k = np.shape(lists)
    wild = np.full(n * k, 10**6, np.int32)
    return Neighborhoods(np.arange(0, n * k + 1, k), wild, np.ones(n, np.int32))


NUMBERS = [
    Attack("numpy", lambda c, r: np.asarray(c)[()], "same"),
    Attack("array", lambda c, r: np.array(c), "same"),
    Attack("float", lambda c, r: float(c), "same"),
    Attack("text", lambda c, r: str(c), "refuse"),
    *(Attack(repr(v), _constant(v), "refuse")
      for v in (float("nan"), float("inf"), -float("inf"), "x", "", 1j, [], {}, b"1",
                object, np.datetime64("2020-01-01"), np.array([1, 2]), np.float32("nan"))),
    *(Attack(repr(v), _constant(v), "any")
      for v in (None, [3], (1, 2), True, False, np.True_, 0, -0.0, -1, 1, 2, -10**30, 10**30,
                2**31, 2**63, 1e-320, 1e308, 1e-30, 0.5, 2.5, -0.5, 7, np.float64(3), np.uint8(255),
                np.int8(-1), datetime.date(2020, 1, 1))),
]  # fmt: skip
CHOICES = [
    *(Attack(repr(v), _constant(v), "refuse")
      for v in ("", "no such thing", "\0", "x" * 10_000, b"exact", 5, 1.5, [], {}, object, len,
                float("nan"), ["hardest"])),
    *(Attack(repr(v), _constant(v), "any")
      for v in (None, True, False, "auto", "exact", "cells", "cells;recall=2", "cells;recall=nan",
                "exact;", "auto;recall=-1", "HNSW0", "HNSW00", "HNSW-3", "IVF0,Flat",
                "IVF99999,Flat", "PQ3", "Flat;nprobe=x", "LSH", "NSG2,Flat", ";;", "Flat,",
                "IVF4,Flat;nprobe=9999999999", "PCA999,Flat", "SQ8", "OPQ7,Flat")),
]  # fmt: skip
FLAGS = [
    *(Attack(repr(v), _constant(v), "refuse")
      for v in ("no", "", "False", [], {}, object, 0.5, float("nan"), 7, b"", (True,))),
    *(Attack(repr(v), _constant(v), "any") for v in (None, True, False, np.True_, np.False_, 0, 1)),
]  # fmt: skip


def _fifo(clean: Any, rng: Any) -> Any:
    os.mkfifo("pipe.npy")
    return "pipe.npy"


def _looped(clean: Any, rng: Any) -> Any:
    os.symlink("loop.npy", "loop.npy")
    return "loop.npy"


def _occupied(clean: Any, rng: Any) -> Any:
    os.makedirs("occupied")
    with open("occupied/mine.npy", "w") as file:
        file.write("mine")
    return "occupied"


PATHS = [
    Attack("pipe", _fifo, "refuse"),
    Attack("loop", _looped, "refuse"),
    Attack("occupied", _occupied, "refuse"),
    *(Attack(repr(v)[:30], _constant(v), "refuse")
      for v in ("", "\0", "a\0b", 5, 1.5, {}, object, "no/such/folder/x.npy", "x" * 300,
                "/dev/null", "/dev/zero", "/proc/self/mem", "/", ".", b"\xff\xfe", "\udcff/x")),
    *(Attack(repr(v)[:30], _constant(v), "any") for v in (None, "new.npy", "line\nbreak.npy", [])),
]  # fmt: skip
TEXTS = [attack for attack in CHOICES if attack.name.startswith("'")]
# An argument that is None by default may be a number, or a text, or anything.
UNKNOWN = [*(a for a in JUNK if a.name != "5"), *NUMBERS[3:], *TEXTS]
HUGE = tuple(repr(v) for v in (10**30, 2**31, 2**63))
IMAGES = [
    *JUNK,
    Attack("no images", _constant([]), "refuse"),
    Attack("missing", _constant(["no/such.png"]), "refuse"),
    Attack("junk bytes", _constant([b"junk", b""]), "refuse"),
    Attack("numbers", _constant([1, 2]), "refuse"),
    Attack("None in it", lambda c, r: [*c, None], "refuse"),
    Attack("one string", _constant("a.png"), "refuse"),
    Attack("tuple", lambda c, r: tuple(c), "same"),
    Attack("arrays", lambda c, r: [np.zeros((9, 9))], "refuse"),
]

_ROWS = {"X", "Z", "queries", "documents", "pairs", "rows", "probabilities", "image"}
_LABELS = {"y", "labels"}
_MEASURED = {"truth", "predicted", "ranked", "relevant", "totals", "correct", "judgements",
             "stored", "ideal"}  # fmt: skip
_OPEN = ("inf", "continuous", "one fewer", "two columns")
PATH_NAMES = {"path", "out", "folder", "root", "model", "labels"}


def attacks_on(name: str, default: Any) -> list[Attack]:
    """The attacks that suit an argument, by its name and the kind of its clean value."""
    if name in _ROWS and isinstance(default, np.ndarray):
        return ROWS
    if name in _LABELS and isinstance(default, np.ndarray):
        return LABELS
    if name in _MEASURED:  # a metric takes labels of any kind, of any number of rows
        is_open = (
            (*_OPEN, "one more") if name == "stored" else _OPEN
        )  # and this of more than ranked
        return [a._replace(expects="any") if a.name in is_open else a for a in LABELS]
    if name in ("neighbors", "indices", "lists"):
        return LISTS
    if name in PATH_NAMES and (name not in ("model", "labels") or isinstance(default, str)):
        return PATHS
    if name == "random_state":  # None is another answer every time
        return [attack for attack in NUMBERS if attack.name != "None"]
    if name == "images":
        return IMAGES
    if name == "n_jobs":  # who asks for a thousand workers gets them
        return [
            a for a in (*JUNK, *NUMBERS) if a.expects == "refuse" or a.name in ("0", "1", "None")
        ]
    if isinstance(default, bool):
        return FLAGS
    if isinstance(default, int | float):  # who asks for 10³⁰ epochs gets them
        return [a for a in NUMBERS if "epochs" not in name or a.name not in HUGE]
    return CHOICES if isinstance(default, str) else UNKNOWN
