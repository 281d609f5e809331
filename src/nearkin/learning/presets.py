"""Good settings of SL-NE: the one table for `SLNE`, command line, automatic choice, reproduction.

Measured on training rows of Caltech-101, MNIST, USPS, letter and network embeddings: no rule wins
everywhere (docs/choosing.md, "Which rule?"). Each entry holds keyword arguments of `nearkin.SLNE`.
"""

from typing import Any

from nearkin.learning.sampling import AllAndHardest, AllPairs, Hardest, Softmax

Preset = dict[str, Any]

# At least as many columns as rows, as image descriptors have; and more rows than columns.
WIDE: Preset = {"sampling": AllPairs(), "n_neighbors": 400}
TALL: Preset = {"sampling": Softmax(), "n_neighbors": 100}

# Where the automatic choice (`nearkin.selection`) starts, and what it changes, a group at a time.
START: Preset = {"sampling": Softmax(0.1), "n_neighbors": 50, "step_size": 0.5}
RANKING: Preset = {"n_neighbors": 30}  # which rank starts as more of them do
CHANGES: list[list[Preset]] = [
    [{"sampling": Softmax(t)} for t in (0.05, 0.2)],
    [{"step_size": s} for s in (0.2, 1.0)],
    [{"n_neighbors": k} for k in (200, 100)],  # of longer lists the shorter are a part
]
# … and the same for more columns than rows.
WIDE_START: Preset = {"sampling": AllAndHardest(), "n_neighbors": 400, "step_size": 2.0}
WIDE_CHANGES: list[list[Preset]] = [
    [{"sampling": AllPairs()}],
    [{"step_size": s} for s in (1.0, 4.0)],
    [{"n_neighbors": 1_000}],
]

# … and to find rows in a whole index: far rows count, so more neighbours at a higher temperature.
FOR_INDEX: Preset = {"sampling": Softmax(0.2), "n_neighbors": 300}
INDEX_START: Preset = START | FOR_INDEX
INDEX_CHANGES: list[list[Preset]] = [
    [{"sampling": Softmax(t)} for t in (0.1, 0.4)],
    [{"step_size": s} for s in (0.2, 1.0)],
    [{"n_neighbors": k} for k in (100, 200)],
]

# What has been best on one kind of data or another, to choose from on held-out rows.
CANDIDATES: list[Preset] = [
    {"sampling": Softmax(0.05), "n_neighbors": 50, "step_size": 0.5, "max_epochs": 8},
    {"sampling": Softmax(0.02), "n_neighbors": 50, "step_size": 0.5, "max_epochs": 8},
    {"sampling": Softmax(0.1), "n_neighbors": 100, "step_size": 0.5, "max_epochs": 2},
    {"sampling": Hardest(), "n_neighbors": 400, "step_size": 0.2, "max_epochs": 10},
    {"sampling": AllPairs(), "n_neighbors": 400, "step_size": 2.0, "max_epochs": 3},
]

# Image descriptors of more dimensions than rows, half whitened: each rule with what suits it.
IMAGES: dict[str, Preset] = {
    "all": {"sampling": AllPairs(), "step_size": 2.0, "n_neighbors": 1_000, "max_epochs": 3},
    "hardest": {"sampling": Hardest(), "step_size": 0.2, "n_neighbors": 400, "max_epochs": 9},
    "softmax": {"sampling": Softmax(), "step_size": 0.5, "n_neighbors": 400, "max_epochs": 2},
}


def for_shape(rows: int, columns: int) -> Preset:
    """The preset for data of this shape, with no more neighbours than there are rows.

    Examples
    --------
    >>> for_shape(1_000, 64)
    {'sampling': Softmax(), 'n_neighbors': 100}
    """
    preset = WIDE if columns >= rows else TALL
    return preset | {"n_neighbors": max(1, min(preset["n_neighbors"], rows - 1))}
