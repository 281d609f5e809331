"""The automatic choice: everything that `SoftVotingKNN()` is made of, on held-out rows.

Starts are compared on a small sample with one learner, the best of them again on a larger one,
where the learner and the vote are chosen, too (successive halving). Sample sizes and candidates
follow from the shape of the data alone, never from the clock: the same seed chooses the same.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.preprocessing.transformers import learns_from_labels, seeded
from nearkin.selection.candidates import START_COMPONENTS
from nearkin.selection.draws import FRACTION, draw_sample, draw_splits
from nearkin.selection.options import Selection
from nearkin.selection.report import summary
from nearkin.selection.search import Search, unfitted
from nearkin.selection.splits import Labels
from nearkin.selection.stages import (
    best_learner,
    best_starts,
    starts_on_more_rows,
    with_all_rows,
)
from nearkin.selection.trial import Candidate
from nearkin.validation.parameters import is_fitted
from nearkin.voting.parts import Parts, Unsettled
from nearkin.voting.votes import Vote

SETTLED_ON = 3_000  # rows to settle a choice on with all others
# With at most so many rows or, of wide ones, cells, one sample serves for all.
ONE_SAMPLE, ONE_SAMPLE_CELLS = (5_000, 10_000), 1e6
# Of two samples, at effort 1: rows of each class in the first, which ranks starts, rows × prepared
# columns of the second, and the least and most rows of both.
FIRST_ROWS_A_CLASS, SECOND_CELLS = 100, 4e6
FIRST_ROWS, SECOND_ROWS = (4_000, 8_000), (4_000, 24_000)
# Rows to judge on: where one sample serves for all, of the first of two, of the second.
HELD_OUT, FIRST_HELD_OUT, SECOND_HELD_OUT = 2_000, 1_250, (2_000, 3_000)


class Choice(NamedTuple):
    """The best candidate, all that were tried, and whether all rows may leave it as it is.

    `plain` are the preprocessings of which plain neighbours contend.
    """

    best: Candidate
    trials: list[dict[str, Any]]
    plain: list[Any]
    settled: bool


def select_parts(
    rows: Any,
    y: ArrayLike,
    groups: ArrayLike | None,
    options: Selection,
    seed: int,
    preprocess: Any,
) -> tuple[Parts, list[dict[str, Any]]]:
    """The parts that are best on held-out rows, and the candidates that were tried."""
    if not isinstance(preprocess, str) and is_fitted(preprocess) and learns_from_labels(preprocess):
        raise ValueError(
            f"preprocess is a {type(preprocess).__name__} that has seen the labels of the rows to "
            "choose on; give one that is not fitted"
        )
    labels = np.unique(np.asarray(y), return_inverse=True)[1]
    counts = np.bincount(labels)
    if len(labels) < 10 or np.count_nonzero(counts >= 3) < 2:
        given = None if isinstance(preprocess, str) else preprocess
        return Parts(None, given, min(5, len(labels)), Vote("softmax", class_weight=0.5)), []
    codes = _group_codes(groups, len(labels))
    if not (isinstance(preprocess, str) or preprocess is None or is_fitted(preprocess)):
        preprocess = seeded(preprocess, np.random.RandomState(seed))
    best, trials, plain, settled = select(rows, labels, codes, options, seed, preprocess)
    similarity = unfitted(best, seed)
    if similarity is not None:
        similarity.n_neighbors = min(similarity.n_neighbors, len(labels) - 1)
    chosen = best.chosen.vote
    parts = Parts(similarity, best.preprocess, best.n_neighbors, chosen, best.novelty_threshold)
    if settled:
        return parts, trials
    held = draw_splits(labels, codes, seed, min(SETTLED_ON, len(labels) // 10))[0]
    return parts._replace(unsettled=Unsettled(held, plain, options.scoring, codes)), trials


def _group_codes(groups: ArrayLike | None, n: int) -> Any:
    if groups is None:
        return None
    codes = np.unique(np.asarray(groups), return_inverse=True)[1]
    if codes.shape != (n,):
        raise ValueError(f"groups has shape {codes.shape}; one entry for each of the {n} rows")
    if codes.max() == 0:
        raise ValueError("groups names one group for all rows; at least two are needed")
    return codes


def select(
    rows: Any,
    labels: Labels,
    groups: NDArray[np.integer] | None,
    options: Selection,
    seed: int,
    preprocess: Any = "auto",
) -> Choice:
    """The best candidate for these rows."""
    trials: list[dict[str, Any]] = []
    try:
        given = not isinstance(preprocess, str)
        draw = partial(draw_search, rows, labels, groups, options, seed, given, trials)
        columns = max(START_COMPONENTS, rows.shape[1] // 4)
        single = len(labels) <= options.effort * np.clip(ONE_SAMPLE_CELLS / columns, *ONE_SAMPLE)
        first = second = draw(np.inf, HELD_OUT) if single else draw(*_first_sample(labels))
        first.ranking = not single
        plain, starts = best_starts(first, preprocess)
        contends = first.contends(plain, first.best(starts))
        if not single:
            columns = first.columns(first.best(starts).preprocess)
            most = np.clip(SECOND_CELLS / columns, *SECOND_ROWS)
            second = draw(most, int(np.clip(FRACTION * most, *SECOND_HELD_OUT)))
            starts = starts_on_more_rows(second, starts)
        best = best_learner(second, starts)
        if not single:
            plain = second.plain(plain.preprocess) if contends else best
        if not second.needs_all_rows or second.clearly_ahead(plain, best):
            best = second.best([plain, best])
        spaces = [preprocess] if given else first.starts.plain()
        spaces = spaces if contends else []
        if spaces and best.learner is not None and second.affords_all(best.preprocess):
            best, spaces = with_all_rows(second, second.among_all(rows, labels), best, spaces)
        return Choice(second.finish(best), trials, spaces, not second.needs_all_rows)
    except BaseException as stopped:
        if not isinstance(stopped, Exception):  # Ctrl-C, in whatever form
            stopped.add_note(summary(trials, options.scoring))
        raise


def _first_sample(labels: Labels) -> tuple[float, int]:
    """Rows of the first of two samples, at effort 1, and how many of them are held out."""
    most = float(np.clip(FIRST_ROWS_A_CLASS * (labels.max() + 1), *FIRST_ROWS))
    return most, int(min(FRACTION * most, FIRST_HELD_OUT))


def draw_search(
    rows: Any, labels: Labels, groups: Any, options: Selection, seed: int, given: bool,
    trials: list[dict[str, Any]], most: float, held_out: int,
) -> Search:  # fmt: skip
    """A search on a sample of at most so many rows, at effort 1."""
    chosen = draw_sample(labels, groups, int(min(options.effort * most, len(labels))), seed)
    own = None if groups is None else np.unique(groups[chosen], return_inverse=True)[1]
    own_labels = np.unique(labels[chosen], return_inverse=True)[1]
    return Search(
        rows[chosen], own_labels, own, options, seed, held_out,
        wide=rows.shape[1] >= (1 - FRACTION) * len(labels), n_rows=len(labels),
        row_numbers=chosen, given=given, trials=trials,
    )  # fmt: skip
