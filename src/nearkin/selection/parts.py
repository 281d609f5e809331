"""From labelled rows to the parts of a classifier, and a report of the choice."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from nearkin.selection.options import Selection
from nearkin.selection.search import select
from nearkin.voting.parts import is_fitted, learns_from_labels
from nearkin.voting.votes import Vote


class Parts(NamedTuple):
    """What a soft-voting classifier is made of; none of it is fitted, unless it was given so."""

    similarity: Any
    preprocess: Any
    n_neighbors: int
    vote: Any


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
    best, trials = select(
        rows, labels, _group_codes(groups, len(labels)), options, seed, preprocess
    )
    similarity = best.similarity(seed)
    if similarity is not None:
        similarity.n_neighbors = min(similarity.n_neighbors, len(labels) - 1)
    return Parts(similarity, best.preprocess, best.n_neighbors, best.chosen.vote), trials


def _group_codes(groups: ArrayLike | None, n: int) -> Any:
    if groups is None:
        return None
    codes = np.unique(np.asarray(groups), return_inverse=True)[1]
    if codes.shape != (n,):
        raise ValueError(f"groups has shape {codes.shape}; one entry for each of the {n} rows")
    if codes.max() == 0:
        raise ValueError("groups names one group for all rows; at least two are needed")
    return codes


def report(trials: list[dict[str, Any]], scoring: str) -> str:
    """What was chosen and what it gained, in a few lines."""
    if not trials:
        return "too few rows to choose on: plain neighbours and class means vote"
    best = trials[-1]
    plain = [trial for trial in trials if trial["learner"] is None]
    raw = next((trial for trial in plain if trial["rows"] == best["rows"]), plain[0])
    lines = [
        f"{len(trials)} candidates, judged by {scoring.replace('_', ' ')} on held-out rows",
        f"plain neighbours of {_rows(raw)}: {_quality(raw)}",
        f"chosen: {_quality(best)}",
        f"  preprocess   {best['preprocess']}",
        f"  learner      {_learner(best['learner'])}",
        f"  epochs       {best['epochs']}",
        f"  n_neighbors  {best['n_neighbors']}",
        f"  vote         {_vote(best['vote'])}",
    ]
    return "\n".join(lines)


def _rows(trial: dict[str, Any]) -> str:
    given = trial["preprocess"] == "None"
    return "the rows as they are" if given else f"rows after {trial['preprocess']}"


def _learner(settings: dict[str, str] | None) -> str:
    if settings is None:
        return "none: plain neighbours"
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def _vote(vote: Vote) -> str:
    parts = [f"{vote.kind} {vote.sharpness:.3g}"]
    parts += [f"csls {vote.csls:g}"] if vote.csls else []
    parts += [f"class means {vote.class_weight:.0%}"] if vote.class_weight else []
    return ", ".join(parts)


def _quality(trial: dict[str, Any]) -> str:
    return f"log loss {trial['log_loss']:.4f}, accuracy {trial['accuracy']:.4f}"
