"""Random draws of rows: the sample that a choice uses, and which of its rows are held out."""

import numpy as np
from numpy.typing import NDArray

from nearkin.learning.holdout import held_out, sample

Labels = NDArray[np.int64]
Mask = NDArray[np.bool_]

MAX_SPLITS = 5
FRACTION = 1 / MAX_SPLITS


def draw_splits(
    labels: Labels, groups: NDArray[np.integer] | None, seed: int, rows: int
) -> list[Mask]:
    """Masks of held-out rows, a fifth of all in each; rows of one group stay together.

    Few rows are split repeatedly, until `rows` of them, or all, were held out. None is held out
    twice: folds judge with less noise than as many independent draws. They are the same for every
    seed, which should not decide between candidates that are about as good. Where one split is
    enough, the seed draws it.
    """
    n = len(labels)
    share = min(FRACTION, rows / n)
    count = int(np.clip(np.ceil(rows / (share * n) - 0.25), 1, MAX_SPLITS))
    rng = np.random.default_rng([seed, 0] if count == 1 else 0)
    if groups is not None:
        return _held_groups(groups, share, count, rng)
    masks = [held_out(labels, share, rng)] if count == 1 else _folds(labels, rng)[:count]
    if not any(held.any() for held in masks):  # all classes are small: a row of the largest
        masks[0][rng.choice(np.flatnonzero(labels == np.bincount(labels).argmax()))] = True
    return [held for held in masks if held.any()]


def _folds(labels: Labels, rng: np.random.Generator) -> list[Mask]:
    """Stratified folds; each leaves at least two rows of a class, or all, to learn from."""
    n, counts = len(labels), np.bincount(labels)
    order = np.lexsort((rng.random(n), labels))  # by class, in random order within
    first = rng.integers(MAX_SPLITS, size=len(counts))  # small classes are not in all of them
    place = np.arange(n) - (np.cumsum(counts) - counts)[labels[order]]
    fold = np.empty(n, np.int64)
    fold[order] = (place + first[labels[order]]) % MAX_SPLITS
    fold[counts[labels] < 3] = -1
    return [fold == number for number in range(MAX_SPLITS)]


def _held_groups(
    groups: NDArray[np.integer], share: float, count: int, rng: np.random.Generator
) -> list[Mask]:
    """Whole groups, at least one and not all, with about a `share` of the rows each time."""
    sizes = np.bincount(groups)
    order = rng.permutation(len(sizes))
    shares, begin = np.cumsum(sizes[order]) / len(groups), 0
    masks: list[Mask] = []
    while begin < len(order) and len(masks) < count:
        filled = int(np.sum(shares <= share * (len(masks) + 1)))
        end = min(max(begin + 1, filled), begin + len(order) - 1)
        masks.append(np.isin(groups, order[begin:end]))
        begin = end
    return masks


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
