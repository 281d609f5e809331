"""The soft-voting nearest-neighbour classifier (Eq. 9): shortlist, score, vote."""

import os
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from nearkin.io import models
from nearkin.io.fingerprint import Digest
from nearkin.io.run_folder import RunFolder, as_run_folder
from nearkin.learning.holdout import HoldOut, lists_of
from nearkin.learning.incremental import concatenate_labels
from nearkin.learning.memory import classifier_bytes
from nearkin.native import pairs
from nearkin.neighborhoods import NeighborLists
from nearkin.neighbors.base import check_index
from nearkin.neighbors.search import NeighborIndex, clip_n_neighbors
from nearkin.validation import memory
from nearkin.validation.arrays import check_label_count
from nearkin.validation.parameters import check_choice, check_number
from nearkin.voting import votes
from nearkin.voting.csls import CSLS_NEIGHBORS, mean_similarity
from nearkin.voting.lists import as_voters, checked_lists, longest, padded
from nearkin.voting.parts import (
    check_calibration,
    check_part,
    cut,
    is_fitted,
    learn,
    listed_scores,
    seeded,
)
from nearkin.voting.preparation import applied, prepared, width_of
from nearkin.voting.votes import KINDS, Vote, VoteName

Array = NDArray[np.float32]

CALIBRATION_FRACTION = 0.1
VOTE_CELLS = 1 << 24


class SoftVotingKNN(ClassifierMixin, BaseEstimator):
    """Classify by the votes of the nearest rows, weighted by a learned similarity.

    The plain nearest rows make the shortlist, so that prediction scales like plain search; the
    similarity re-ranks it and decides how much each row's vote counts. A query that no row votes
    on, because an approximate index found none or `neighbors` lists none, gets the share of each
    class among the stored rows as its probability.

    Parameters
    ----------
    similarity : estimator, optional
        A learner such as `SLNE`, fitted along, or any fitted object with ``similarity(X, Z)``,
        used as it is. Without one this is plain k-nearest-neighbour voting: the nearer a row, the
        more its vote counts, ``scale_ − d²/2``, which for rows of unit length is their cosine.
    preprocess : transformer, optional
        Applied to rows and queries, fitted along unless it is fitted: see `nearkin.Preprocess`.
    n_neighbors : int
        Rows on the shortlist.
    vote : {"auto", "similarity", "power", "softmax", "top"} or Vote
        ``"similarity"`` is the paper's; the others are sharper, and ``Vote("power", 3)`` says how
        much (see `nearkin.voting.Vote`). ``"auto"`` holds out a tenth of the rows (at most 5,000)
        from learning and takes the kind and sharpness that classify them best.
    csls : float
        Some rows are similar to everything near them and outvote the right ones. From each stored
        row's score this share of its mean similarity to its 50 nearest rows is taken off; 0 takes
        off nothing, about one half often helps.
    index : str
        How neighbours are found, a learner's as well: see `nearkin.neighbors.nearest`.
    refit : bool
        After ``auto`` has chosen the vote, learn the similarity again on all rows. Costs a second
        fit; worth little where the held-out rows are a small share.
    random_state : int, RandomState instance or None
        Chooses the held-out rows.

    Attributes
    ----------
    classes_ : array of labels
    similarity_, preprocess_ : fitted parts, or None
    vote_ : nearkin.voting.votes.Vote
    calibration_accuracy_ : float
        Accuracy on the held-out rows (with ``vote="auto"``).
    database_ : (n, D) float32 array
        The preprocessed rows.
    labels_ : (n,) int32 array
        Their labels, as places in `classes_`.
    scale_ : float
        Their mean squared length; 1 where a similarity makes no use of it.
    csls_bias_ : (n,) float32 array
        What `csls` takes off each row's score.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from nearkin import SLNE
    >>> X, y = load_digits(return_X_y=True)
    >>> model = SoftVotingKNN(SLNE("softmax", random_state=0), random_state=0)
    >>> model.fit(X[:1500], y[:1500]).predict_top(X[1500:1502], n=2).shape
    (2, 2)
    """

    classes_: NDArray[Any]
    database_: Array
    labels_: NDArray[np.int32]
    _cached_index: NeighborIndex | None

    def __init__(
        self,
        similarity: Any = None,
        *,
        preprocess: Any = None,
        n_neighbors: int = 50,
        vote: Literal["auto"] | VoteName | Vote = "auto",
        csls: float = 0.0,
        index: str = "auto",
        refit: bool = True,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.similarity = similarity
        self.preprocess = preprocess
        self.n_neighbors = n_neighbors
        self.vote = vote
        self.csls = csls
        self.index = index
        self.refit = refit
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        neighbors: NeighborLists | None = None,
        calibration: tuple[ArrayLike, ArrayLike] | None = None,
        folder: str | os.PathLike[str] | RunFolder | None = None,
    ) -> Self:
        """Keep the rows, learn the similarity and choose the vote.

        Parameters
        ----------
        X : (n, D) array-like
        y : (n,) array-like
            Labels of any kind.
        neighbors : (n, k) integer array or (n, n) CSR graph, optional
            Ready-made lists of each row's nearest rows.
        calibration : (rows, labels), optional
            Rows to choose the vote on, in place of a held-out tenth. Needed with ``vote="auto"``
            when the similarity is already fitted: rows it has seen would flatter it.
        folder : path or nearkin.RunFolder, optional
            Where to keep preprocessed rows, neighbour lists and the checkpoints of the learner
            (its finished members, for an ensemble). If the process dies, the same fit with the
            same folder resumes and ends with the same model; see `SLNE.fit`.
        """
        self._check_parameters()
        if calibration is not None:
            check_calibration(calibration)
        self._check_memory(X, neighbors)
        self.__dict__.pop("calibration_accuracy_", None)  # an earlier fit's
        with as_run_folder(folder).claim("SoftVotingKNN.fit") as claimed:
            return self._fit(X, y, neighbors, calibration, claimed)

    def _fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        neighbors: NeighborLists | None,
        calibration: tuple[ArrayLike, ArrayLike] | None,
        folder: RunFolder,
    ) -> Self:
        rng = check_random_state(folder.seed(self.random_state))
        labels = self._keep(X, y, rng, folder)
        fitted = self.similarity is None or is_fitted(self.similarity)
        self.similarity_ = self.similarity if fitted else seeded(self.similarity, rng)
        lists = None if neighbors is None else checked_lists(neighbors, len(labels))
        if lists is None and len(labels) > 1 and self._needs_lists(fitted):
            lists = self._find_lists(fitted, folder)
        # Ready-made lists are used as they are; ours may be longer than the learner's n_neighbors.
        own = lists if neighbors is not None else cut(lists, self.similarity_)
        if self.vote == "auto" and calibration is None:
            self._calibrate_held_out(y, lists, own, fitted, rng, folder)
            return self
        if not fitted:
            learn(self.similarity_, self.database_, y, own, folder)
        self._measure_csls(lists)
        if calibration is not None and self.vote == "auto":
            self._calibrate_on(*calibration)
        else:
            self.vote_ = self.vote if isinstance(self.vote, Vote) else Vote(self.vote)  # type: ignore[arg-type]
        return self

    def add(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Let new rows vote, of old or new classes; nothing is learned.

        Similarity, preprocessing and vote stay as they are: the result is that of a fit on all
        rows with these given. To let the similarity learn from the new rows, too, call its
        `partial_fit` with their preprocessed form. Rows are copied and the index is built again
        for the next question, so add many at once.

        Parameters
        ----------
        X : (m, D) array-like
        y : (m,) array-like

        Examples
        --------
        >>> X, y = np.array([[0.0, 1.0], [1.0, 0.0]]), ["north", "east"]
        >>> model = SoftVotingKNN(n_neighbors=1, vote="top").fit(X, y)
        >>> model.add([[0.0, -1.0]], ["south"]).predict([[0.1, -0.9]]).tolist()
        ['south']
        """
        check_is_fitted(self, "database_")
        check_label_count(X, y)
        rows, new = validate_data(self, X, y, reset=False, **self._accepted)
        check_classification_targets(new)
        rows = applied(self.preprocess_, rows)
        total = 4 * (len(self.database_) + len(rows)) * rows.shape[1]
        memory.check("add", {"all rows": total}, "fit on a memory map of all rows")
        labels = concatenate_labels(self.classes_[self.labels_], new)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        self.labels_ = codes.astype(np.int32)
        self.database_ = np.concatenate([self.database_, rows])
        self._measure()
        self._cached_index = None
        n = len(codes)
        self._measure_csls(
            self._index.nearest(min(CSLS_NEIGHBORS, n - 1))[1] if self.csls and n > 1 else None
        )
        return self

    def _check_memory(self, X: ArrayLike, neighbors: NeighborLists | None) -> None:
        shape: tuple[Any, ...] = getattr(X, "shape", None) or ()
        if len(shape) != 2 or 0 in shape:  # lists, and what is refused
            return
        n, D = int(shape[0]), int(shape[1])
        dims = D if self.preprocess is None else width_of(self.preprocess, n, D)
        learns = self.similarity is not None and not is_fitted(self.similarity)
        near = getattr(self.similarity, "n_neighbors", 0)  # which the learner checks
        k = max(self.n_neighbors, near if learns and isinstance(near, int) else 0)
        stages = classifier_bytes(
            n, D, dims, max(1, min(k, n - 1)), index=self.index,
            ready_lists=neighbors is not None or not self._needs_lists(not learns),
            preprocess=self.preprocess is not None, learns=learns,
        )  # fmt: skip
        if self.preprocess is None:
            memory.check_conversion(X)
        advice = f"lower n_neighbors={k}, or fit on a memory map: np.load(path, mmap_mode='r')"
        if self.preprocess is not None:
            advice = (
                "lower n_components of the preprocessing, or preprocess into a file, "
                "Preprocess().fit(X).transform(X, out=...), and fit on that"
            )
        memory.check(f"SoftVotingKNN on {n} rows of {D} columns", stages, advice)

    def _needs_lists(self, fitted: bool) -> bool:
        return not fitted or self.vote == "auto" or self.csls > 0

    def _check_parameters(self) -> None:
        if not isinstance(self.vote, Vote):
            check_choice("vote", self.vote, ["auto", *KINDS])
        check_number("n_neighbors", self.n_neighbors, 1, whole=True)
        check_number("csls", self.csls, 0)
        check_index(self.index)
        check_part("similarity", self.similarity, "similarity", "a learner such as SLNE()")
        check_part("preprocess", self.preprocess, "transform", "a transformer such as Preprocess()")

    def _keep(self, X: ArrayLike, y: ArrayLike, rng: Any, folder: RunFolder) -> NDArray[np.int32]:
        """Validate, preprocess and store the rows and their labels."""
        check_label_count(X, y)
        rows, y = validate_data(self, X, y, **self._accepted)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        self.preprocess_, self.database_ = prepared(self.preprocess, rows, rng, folder)
        self._measure()
        self.labels_ = labels.astype(np.int32)
        self._cached_index = None
        if self.n_neighbors > len(labels):
            warnings.warn(
                f"n_neighbors={self.n_neighbors} but X has {len(labels)} rows; all of them vote",
                stacklevel=4,
            )
        return self.labels_

    def _measure(self) -> None:
        """Mean squared row length, which only plain neighbours need: it reads all rows."""
        self.scale_ = 1.0
        if self.similarity is None:
            lengths = np.einsum("nd,nd->n", self.database_, self.database_)
            self.scale_ = float(lengths.mean(dtype=np.float64))

    def _find_lists(self, fitted: bool, folder: RunFolder) -> NDArray[np.int32]:
        """One search serves the learner and the vote."""
        n = len(self.labels_)
        learner = 0 if fitted else getattr(self.similarity, "n_neighbors", None) or 0
        if learner:
            check_number("similarity.n_neighbors", learner, 1, whole=True)
            learner = clip_n_neighbors(learner, n, "similarity.n_neighbors")
        k = min(max(self.n_neighbors, learner, CSLS_NEIGHBORS if self.csls else 0), n - 1)
        inputs = {"n_neighbors": k, "index": self.index, "X": Digest(self.database_)}
        found = folder.part("neighbors", inputs, lambda: {"indices": self._index.nearest(k)[1]})
        return found["indices"]

    @property
    def _accepted(self) -> dict[str, Any]:
        if self.preprocess is not None:  # which may take sparse or half-precision rows
            return {"accept_sparse": "csr", "dtype": "numeric"}
        return {"dtype": np.float32, "order": "C"}

    @property
    def _index(self) -> NeighborIndex:
        if getattr(self, "_cached_index", None) is None:
            self._cached_index = NeighborIndex(self.database_, self.index)
        return self._cached_index  # type: ignore[return-value]

    def _measure_csls(self, lists: NeighborLists | None) -> None:
        """Measure how similar each row is to its surroundings."""
        self.csls_bias_ = np.zeros(len(self.database_), np.float32)
        if self.csls and lists is not None:
            n = len(self.database_)
            if not isinstance(lists, np.ndarray):
                lists = lists_of(lists, np.arange(n), n)
            matrix = getattr(self.similarity_, "matrix_", None)
            if matrix is None and self.similarity_ is not None:
                raise ValueError(
                    f"csls={self.csls} needs a similarity with matrix_; "
                    f"{type(self.similarity_).__name__} has none"
                )
            mean = mean_similarity(self.database_, lists, matrix, self.scale_)
            self.csls_bias_ += self.csls * mean

    def _calibrate_on(self, X: ArrayLike, y: ArrayLike) -> None:
        truth = np.searchsorted(self.classes_, np.asarray(y))
        truth = np.minimum(truth, len(self.classes_) - 1)
        if (self.classes_[truth] != np.asarray(y)).any():
            raise ValueError("calibration holds labels that y does not; use labels that y has")
        queries = self._queries(X)
        indices = self._shortlist(queries)
        self._choose(self._scores(queries, indices), self.labels_[indices], truth)

    def _calibrate_held_out(
        self,
        y: ArrayLike,
        lists: NeighborLists | None,
        own: NeighborLists | None,
        fitted: bool,
        rng: Any,
        folder: RunFolder,
    ) -> None:
        if fitted and self.similarity is not None:
            raise ValueError(
                "vote='auto' cannot choose with a similarity that is already fitted, because the "
                "rows it was fitted on would flatter it; pass fit(..., calibration=(rows, labels)) "
                "or name a vote, such as vote='power'"
            )
        generator = np.random.default_rng(rng.randint(2**31 - 1))
        holdout = HoldOut.none(len(self.labels_))
        if lists is not None:
            holdout = HoldOut.draw(lists, self.labels_, CALIBRATION_FRACTION, generator)
        if not holdout:  # too few rows to spare any
            self.vote_ = Vote("power")
            if not fitted:
                learn(self.similarity_, self.database_, y, own, folder)
            self._measure_csls(lists)
            return
        if isinstance(lists, np.ndarray):  # nearest first; all neighbours of a graph vote
            shortlist = np.ascontiguousarray(holdout.voters[:, : self.n_neighbors])
            holdout = replace(holdout, voters=shortlist)
        unfitted = self.similarity_
        if not fitted:
            known = holdout.training_lists(own)
            apart = folder.sub("held-out")
            rows = self.database_
            self.similarity_ = learn(clone(unfitted), rows, y, known, apart, holdout.held)
        self._measure_csls(lists)
        scores = self._scores(self.database_[holdout.held], holdout.voters)
        self.vote_, self.calibration_accuracy_ = holdout.choose_vote(scores, self.labels_)
        if not fitted and self.refit and not getattr(self.similarity_, "interrupted_", False):
            self.similarity_ = learn(unfitted, self.database_, y, own, folder)
            self._measure_csls(lists)

    def _choose(self, scores: Array, labels: NDArray[Any], truth: NDArray[Any]) -> None:
        n = len(self.classes_)
        self.vote_, self.calibration_accuracy_ = votes.choose(scores, labels, truth, n)

    def _queries(self, X: ArrayLike) -> Array:
        check_is_fitted(self, "database_")
        rows = validate_data(self, X, reset=False, **self._accepted)
        return applied(self.preprocess_, rows)

    def _shortlist(self, queries: Array) -> NDArray[np.int32]:
        return self._index.nearest(min(self.n_neighbors, len(self.database_)), queries)[1]

    def _scores(self, queries: Array, indices: NDArray[np.int32]) -> Array:
        if self.similarity_ is None:
            scores = pairs.pair_closeness(queries, self.database_, indices, self.scale_)
        else:
            scores = listed_scores(self.similarity_, queries, self.database_, indices)
        return scores - self.csls_bias_[indices] if self.csls else scores

    def _tallies(self, X: ArrayLike, neighbors: NeighborLists | None) -> Iterator[Array]:
        """Votes by class, a block of queries at a time."""
        queries = self._queries(X)
        lists = None
        if neighbors is not None:
            lists = as_voters(neighbors, len(queries), len(self.database_))
        n_classes = len(self.classes_)
        widest = max(n_classes, self.n_neighbors if lists is None else longest(lists))
        step = max(1, min(4_096, VOTE_CELLS // widest))
        for lo in range(0, len(queries), step):
            part = slice(lo, lo + step)
            block = queries[part]
            indices = self._shortlist(block) if lists is None else padded(lists[part])
            scores = self._scores(block, indices)
            tally = self.vote_.tally(scores, self.labels_[indices], n_classes)
            no_voters = np.isneginf(scores).all(axis=1)
            if no_voters.any():  # the class frequencies are all that is known
                tally[no_voters] = np.bincount(self.labels_, minlength=n_classes)
            yield tally

    def predict(self, X: ArrayLike, neighbors: NeighborLists | None = None) -> NDArray[Any]:
        """The label with the most votes, for each row of `X`.

        Parameters
        ----------
        X : (m, D) array-like
        neighbors : (m, k) integer array or (m, n) CSR graph, optional
            The stored rows that vote on each query, in place of the nearest; ``-1`` stands for
            none. Only the places of a graph's stored entries count, not their values.
        """
        winners = [tally.argmax(axis=1) for tally in self._tallies(X, neighbors)]
        return self.classes_[np.concatenate(winners)]

    def predict_proba(self, X: ArrayLike, neighbors: NeighborLists | None = None) -> Array:
        """Shares of the votes, in the order of `classes_`; `neighbors` as in `predict`."""
        return np.concatenate([votes.probabilities(t) for t in self._tallies(X, neighbors)])

    def predict_top(
        self, X: ArrayLike, n: int = 5, neighbors: NeighborLists | None = None
    ) -> NDArray[Any]:
        """The `n` labels with the most votes, best first, as an (m, n) array.

        Labels of which no row is on the shortlist come last, in the order of `classes_`.
        `neighbors` as in `predict`.
        """
        check_is_fitted(self, "database_")
        check_number("n", n, 1, whole=True)
        if n > len(self.classes_):
            raise ValueError(f"n={n} must lie between 1 and the {len(self.classes_)} classes")
        best = [
            np.argsort(-tally, axis=1, kind="stable")[:, :n]
            for tally in self._tallies(X, neighbors)
        ]
        return self.classes_[np.concatenate(best)]

    def kneighbors(
        self, X: ArrayLike, n_neighbors: int | None = None, rerank: bool = True
    ) -> tuple[Array, NDArray[np.int32]]:
        """The most similar database rows: the shortlist, re-ranked, or as it is.

        Returns
        -------
        similarities, indices : (m, n_neighbors) arrays
            Most similar first; with ``rerank=False``, nearest first. Where an approximate index
            found fewer rows, −inf and ``-1`` fill the places.
        """
        queries = self._queries(X)
        n = self._wanted(n_neighbors)
        indices = self._shortlist(queries)
        scores = self._scores(queries, indices)
        if not rerank:
            return scores[:, :n], indices[:, :n]
        order = np.argsort(-scores, axis=1, kind="stable")[:, :n]
        return np.take_along_axis(scores, order, 1), np.take_along_axis(indices, order, 1)

    def _wanted(self, n_neighbors: int | None) -> int:
        """How many of the shortlist `kneighbors` is to give."""
        rows = len(self.database_)
        most = min(self.n_neighbors, rows)
        if n_neighbors is None:
            return most
        check_number("n_neighbors", n_neighbors, 1, whole=True)
        if n_neighbors > most:
            raise ValueError(
                f"n_neighbors={n_neighbors} must lie between 1 and {most}, the length of the "
                "shortlist; for more, raise n_neighbors of the model with "
                f"set_params(n_neighbors=...), up to its {rows} rows"
            )
        return n_neighbors

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file: see `nearkin.save`."""
        models.save(self, path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = getattr(self.preprocess, "__sklearn_tags__", None)
        tags.input_tags.sparse = bool(inner and inner().input_tags.sparse)
        return tags
