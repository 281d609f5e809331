"""A fit of the classifier: rows stored, neighbours found once, the similarity learned, the vote."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.io.run_folder import RunFolder
from nearkin.learning.calibration import calibrate_held_out, calibrate_on
from nearkin.learning.holdout import HoldOut
from nearkin.neighborhoods import NeighborLists
from nearkin.neighbors.index import clip_n_neighbors
from nearkin.neighbors.retrieval import fitted_retrieval
from nearkin.preprocessing.transformers import seeded
from nearkin.preprocessing.unit_length import have_unit_length
from nearkin.validation import expect
from nearkin.validation.arrays import labelled_rows
from nearkin.validation.caller import warn_caller
from nearkin.validation.parameters import is_fitted, require
from nearkin.voting.csls import CSLS_NEIGHBORS
from nearkin.voting.database import measure_csls, refine_means, store
from nearkin.voting.lists import checked_lists
from nearkin.voting.parts import Parts, learn, truncate_lists
from nearkin.voting.shortlist import kept_stored_lists
from nearkin.voting.votes import as_vote


@dataclass
class ClassifierFit:
    """One call of `SoftVotingKNN.fit` on a model, whose parts are given or chosen."""

    model: Any
    X: ArrayLike
    y: ArrayLike
    parts: Parts
    neighbors: NeighborLists | None
    calibration: tuple[ArrayLike, ArrayLike] | None
    rows: Any = None  # as they were given, checked
    lists: Any = None

    def learn(self, folder: RunFolder, rng: Any) -> None:
        """Store rows and learn from them; all of it is left in the model."""
        model, parts = self.model, self.parts
        model.n_neighbors_, model.vote_ = parts.n_neighbors, as_vote(parts.vote)
        model.novelty_threshold_ = parts.novelty_threshold
        fitted = parts.similarity is None or is_fitted(parts.similarity)
        model.similarity_ = parts.similarity if fitted else seeded(parts.similarity, rng)
        self._store(folder, rng)
        n, choosing = len(model.labels_), parts.vote == "auto"
        lists = None if self.neighbors is None else checked_lists(self.neighbors, n)
        if lists is None and n > 1 and (not fitted or choosing or model.vote_.csls > 0):
            lists = self._find_lists(fitted, folder)
        self.lists = lists
        # Ready-made lists are used as they are; ours may be longer than the learner's n_neighbors.
        own = lists if self.neighbors is not None else truncate_lists(lists, model.similarity_)
        if choosing and self.calibration is None:
            calibrate_held_out(model, self.y, lists, own, fitted, rng, folder)
        elif not fitted:
            if parts.unsettled is not None:
                own = HoldOut.of(parts.unsettled.held, own).training_lists(own)
            learn(model.similarity_, model.database_, self.y, own, folder)

    def finish(self) -> None:
        """Measure what the vote needs, and choose it on rows of the user's."""
        model = self.model
        measure_csls(model, self.lists)
        if model.class_offsets_ is None:
            refine_means(model)
        if self.parts.vote == "auto" and self.calibration is not None:
            calibrate_on(model, *self.calibration)

    def _store(self, folder: RunFolder, rng: Any) -> None:
        """Check, preprocess and store the rows and their labels."""
        model = self.model
        model.preprocess_ = self.parts.preprocess
        rows, labels = labelled_rows(model, self.X, self.y, **model._accepted)
        self.rows, model.unit_length_ = rows, have_unit_length(rows)
        held = None if self.parts.unsettled is None else self.parts.unsettled.held
        store(model, rows, labels, self.parts.preprocess, rng, folder, held)
        model.retrieval_ = fitted_retrieval(model.index, rows, labels, rng, folder)
        model._cached_index = model.search_index_ = None
        if not isinstance(model.n_neighbors, str) and model.n_neighbors > len(labels):
            warn_caller(
                f"n_neighbors={model.n_neighbors} but X has {len(labels)} rows; all of them vote"
            )

    def _find_lists(self, fitted: bool, folder: RunFolder) -> NDArray[np.int32]:
        """One search serves the learner and the vote."""
        model, n = self.model, len(self.model.labels_)
        learner = 0 if fitted else getattr(model.similarity_, "n_neighbors", None) or 0
        if learner:
            require("similarity.n_neighbors", learner, expect.whole(1))
            learner = clip_n_neighbors(learner, n, "similarity.n_neighbors")
        k = min(max(model.shortlist_length, learner, CSLS_NEIGHBORS), n - 1)
        return kept_stored_lists(model, k, folder)
