"""Random draws of rows: the sample that a choice uses, and which of its rows are held out."""

import numpy as np
from numpy.typing import NDArray

from nearkin.learning.holdout import held_out, sample

Labels = NDArray[np.int64]
Mask = NDArray[np.bool_]

FRACTION = 0.2
MAX_SPLITS = 5


def draw_splits(
    labels: Labels, groups: NDArray[np.integer] | None, seed: int, rows: int
) -> list[Mask]:
    """Masks of held-out rows, a fifth of all in each; rows of one group stay together.

    Few rows are split repeatedly, until `rows` of them were held out.
    """
    share = min(FRACTION, rows / len(labels)) if len(labels) > 3 * rows else FRACTION
    count = int(np.clip(np.ceil(rows / (share * len(labels)) - 0.25), 1, MAX_SPLITS))
    generators = [np.random.default_rng([seed, i]) for i in range(count)]
    if groups is None:
        return [_held_rows(labels, share, rng) for rng in generators]
    return [_held_groups(groups, share, rng) for rng in generators]


def _held_rows(labels: Labels, share: float, rng: np.random.Generator) -> Mask:
    """A stratified share of the rows; where all classes are small, a row of the largest."""
    held = held_out(labels, share, rng)
    if not held.any():
        held[rng.choice(np.flatnonzero(labels == np.bincount(labels).argmax()))] = True
    return held


def _held_groups(groups: NDArray[np.integer], share: float, rng: np.random.Generator) -> Mask:
    """Whole groups, at least one and not all, with about a `share` of the rows."""
    sizes = np.bincount(groups)
    order = rng.permutation(len(sizes))
    rows = np.cumsum(sizes[order])
    count = max(1, int(np.searchsorted(rows, share * len(groups), side="right")))
    return np.isin(groups, order[: min(count, len(sizes) - 1)])


def draw_sample(
    labels: Labels, groups: NDArray[np.integer] | None, most: int, seed: int
) -> NDArray[np.int64]:
    """At most `most` row numbers, in order, stratified by class; with groups, whole groups."""
    rng = np.random.default_rng(seed)
    if len(labels) <= most:
        return np.arange(len(labels))
    if groups is not None:
        sizes = np.bincount(groups)
        order = rng.permutation(len(sizes))
        count = max(2, int(np.searchsorted(np.cumsum(sizes[order]), most, side="right")))
        return np.flatnonzero(np.isin(groups, order[:count]))
    chosen = sample(labels, most, rng)
    counts = np.bincount(labels[chosen])
    if np.count_nonzero(counts) > 1 and counts.max() >= 3:
        return chosen
    return _whole_classes(labels, most, rng)


def _whole_classes(labels: Labels, most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Where one class dominates, or all are small: whole classes, none for more than half."""
    n = len(labels)
    order = np.lexsort((rng.random(n), rng.permutation(labels.max() + 1)[labels]))
    first = np.flatnonzero(np.diff(labels[order], prepend=-1))
    place = np.arange(n) - np.repeat(first, np.diff(first, append=n))
    return np.sort(order[place < most // 2][:most])
