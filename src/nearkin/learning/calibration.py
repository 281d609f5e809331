"""Vote and novelty threshold of a classifier, chosen on rows that its similarity has not seen."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from nearkin.io.run_folder import RunFolder
from nearkin.learning.holdout import HoldOut
from nearkin.neighborhoods import NeighborLists
from nearkin.neighbors.retrieval import check_unlabelled
from nearkin.preprocessing.transformers import learns_from_labels
from nearkin.voting.choice import Ballot, choose
from nearkin.voting.class_means import class_means
from nearkin.voting.novelty import threshold
from nearkin.voting.parts import learn
from nearkin.voting.scores import class_scores, local_distances, voter_novelty, voter_scores
from nearkin.voting.shortlist import shortlist

Array = NDArray[np.float32]

FRACTION = 0.1


def calibrate_on(model: Any, X: ArrayLike, y: ArrayLike) -> None:
    """Choose on rows that the user has held out."""
    truth = np.searchsorted(model.classes_, np.asarray(y))
    truth = np.minimum(truth, len(model.classes_) - 1)
    if (model.classes_[truth] != np.asarray(y)).any():
        raise ValueError("calibration holds labels that y does not; use labels that y has")
    given, queries = model._queries(X)
    _choose(model, queries, shortlist(model, given, queries), truth, model.class_means_)


def calibrate_held_out(
    model: Any,
    y: ArrayLike,
    lists: NeighborLists | None,
    own: NeighborLists | None,
    fitted: bool,
    rng: Any,
    folder: RunFolder,
) -> None:
    """Choose on a tenth of the rows, with a similarity learned without them; then learn from all.

    `lists` are the neighbours that vote, `own` those that the learner gets.
    """
    _check(model, fitted)
    generator = np.random.default_rng(rng.randint(2**31 - 1))
    holdout = HoldOut.none(len(model.labels_))
    if lists is not None:
        holdout = HoldOut.draw(lists, model.labels_, FRACTION, generator)
    unfitted, rows = model.similarity_, model.database_
    if holdout:  # else there are too few rows to spare any
        voters = holdout.voters
        if isinstance(lists, np.ndarray):  # nearest first; all neighbours of a graph vote
            voters = np.ascontiguousarray(voters[:, : model.shortlist_length])
        if not fitted:
            known, place = holdout.training_lists(own), folder.sub("held-out")
            model.similarity_ = learn(clone(unfitted), rows, y, known, place, holdout.held)
        held, kept = holdout.held, ~holdout.held
        means = class_means(rows[kept], model.labels_[kept], len(model.classes_))
        _choose(model, rows[held], voters, model.labels_[held], means)
    if not fitted and not getattr(model.similarity_, "interrupted_", False):
        model.similarity_ = learn(unfitted, rows, y, own, folder)


def _check(model: Any, fitted: bool) -> None:
    check_unlabelled(model.index, "vote='auto' chooses on held-out rows")
    if learns_from_labels(model.preprocess_):
        raise ValueError(
            f"vote='auto' cannot choose after {type(model.preprocess_).__name__}, which has "
            "seen the labels of the rows to choose on; name a vote, such as vote='softmax', or "
            "leave similarity='auto', which holds them out from the start"
        )
    if fitted and model.similarity_ is not None:
        raise ValueError(
            "vote='auto' cannot choose with a similarity that is already fitted, because the "
            "rows it was fitted on would flatter it; pass fit(..., calibration=(rows, labels)) "
            "or name a vote, such as vote='power'"
        )


def _choose(
    model: Any, queries: Array, voters: NDArray[np.int32], truth: NDArray[Any], means: Array
) -> None:
    """Choose on queries whose labels are known."""
    ballot = Ballot(
        voter_scores(model, queries, voters),
        model.labels_[voters],
        truth,
        len(model.classes_),
        class_scores=class_scores(model, queries, means),
        distances=local_distances(model, queries, voters),
    )
    chosen = choose(ballot)
    model.vote_, model.calibration_accuracy_ = chosen.vote, chosen.accuracy
    model.novelty_threshold_ = threshold(voter_novelty(model, queries, voters))
