"""The soft-voting nearest-neighbour classifier (Eq. 9): shortlist, score, vote."""

import os
from collections.abc import Iterator
from copy import copy
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from nearkin.adapter import METRICS, Adapter, Metric, fold
from nearkin.io import models
from nearkin.io.run_folder import RunFolder, as_run_folder
from nearkin.learning.classifier_fit import ClassifierFit
from nearkin.learning.factorization import matrix_of
from nearkin.learning.memory import check_classifier
from nearkin.neighborhoods import NeighborLists
from nearkin.neighbors.index import NeighborIndex
from nearkin.neighbors.retrieval import Retrieval, index_description, retrieval_problem
from nearkin.preprocessing.transformers import applied
from nearkin.selection.full_size import settle
from nearkin.selection.options import Selection
from nearkin.selection.report import report
from nearkin.validation import expect
from nearkin.validation.arrays import check_squares, labelled_rows, validate_data
from nearkin.validation.parameters import Table, as_group, check_parameters, checked
from nearkin.voting import votes
from nearkin.voting.database import extend
from nearkin.voting.lists import checked_lists
from nearkin.voting.parts import Parts, check_database, check_given, given_parts
from nearkin.voting.scores import voter_novelty
from nearkin.voting.shares import VoteShares
from nearkin.voting.shortlist import row_index, searched_index
from nearkin.voting.tally import Voters, ranked, shares, tallies, voter_blocks
from nearkin.voting.votes import Vote, VoteName, vote_problem

Array = NDArray[np.float32]

FLOATS = [np.float32, np.float64, np.float16]


class SoftVotingKNN(ClassifierMixin, BaseEstimator):
    """Classify by the votes of the nearest rows, weighted by a learned similarity.

    The plain nearest rows make the shortlist, so that prediction scales like plain search; the
    similarity re-ranks it and decides how much each row's vote counts. A query that no row votes
    on, because an approximate index found none or `neighbors` lists none, gets the share of each
    class among the stored rows as its probability.

    With no arguments everything is chosen on held-out rows: preprocessing, learner, shortlist and
    vote. Plain nearest neighbours of the rows as they are, and class means alone, are always
    among the candidates. `report_` says what was chosen, and what that gained.

    Parameters
    ----------
    similarity : "auto", estimator or None
        A learner such as `SLNE`, fitted along, or any fitted object with ``similarity(X, Z)``,
        used as it is. None is plain k-nearest-neighbour voting: the nearer a row, the more its
        vote counts, ``scale_ − d²/2``, which for rows of unit length is their cosine.
    preprocess : "auto", transformer or None
        Applied to rows and queries, fitted along unless it is fitted: see `nearkin.Preprocess`.
        ``"auto"`` is chosen with an automatic similarity; with a learner it is the learner's
        own preparation, `Preprocess` for ``prepare="auto"``.
    n_neighbors : "auto" or int
        Rows on the shortlist; ``"auto"`` is chosen with an automatic similarity, else 50.
    vote : {"auto", "similarity", "power", "softmax", "top"} or Vote
        ``"similarity"`` is the paper's; the others are sharper, and `nearkin.Vote` sets how
        much, with the share of the class means. ``"auto"`` takes what is best on held-out rows
        (a tenth of them, at most 5,000, if the similarity is given).
    index : str or Retrieval
        How neighbours are found, a learner's as well: see `nearkin.neighbors.nearest`. Among the
        preprocessed rows, or in another feature space by a `nearkin.Retrieval`.
    selection : Selection, optional
        What the automatic choice aims at (classification or retrieval) and may cost.
    random_state : int, RandomState instance or None
        Seeds the choice and the held-out rows.

    Attributes
    ----------
    classes_ : array of labels
    similarity_, preprocess_, retrieval_ : fitted parts, or None
    n_neighbors_ : int
    vote_ : nearkin.voting.votes.Vote
    trials_ : list of dict
        The candidates that were tried, with their log loss, accuracy and score on
        held-out rows; the larger the score, the better by the chosen scoring.
    report_ : str
        What was chosen and why.
    calibration_accuracy_ : float
        Accuracy on the held-out rows (with ``vote="auto"``).
    novelty_threshold_ : float or None
        What `novelty_score` stayed below for 95 % of the held-out rows; None if no row was.
    database_ : (n, D) float32 array
        The preprocessed rows.
    labels_ : (n,) int32 array
        Their labels, as places in `classes_`.
    class_means_ : (n_classes, D) float32 array
        Mean of the preprocessed rows of each class, scaled to unit length.
    class_offsets_ : (n_classes, D) float32 array, or None
        What a refinement of the class means adds to their scores, times the row.
    unit_length_ : bool
        Whether all rows, as they were given, have unit length.
    scale_ : float
        Mean squared row length; 1 where a similarity makes no use of it.
    csls_bias_ : (n,) float32 array
        Subtracted from each row's score by ``vote_.csls``.
    n_search_columns_ : int
        Columns at the end of `database_` in which neighbours are searched; 0 for all.
    search_index_ : dict of arrays, or None
        The index that a file has brought along; without one, it is built for the first query.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SoftVotingKNN(random_state=0).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.9)
    True
    """

    PARAMETERS: ClassVar[Table] = {
        "similarity": expect.auto(expect.part("similarity", "a learner such as SLNE()")),
        "preprocess": expect.auto(expect.part("transform", "a transformer such as Preprocess()")),
        "n_neighbors": expect.either(expect.choice("auto"), expect.whole(1)),
        "vote": vote_problem,
        "index": retrieval_problem,
        "selection": expect.group(Selection),
        "random_state": expect.seed,
    }

    classes_: NDArray[Any]
    database_: Array
    labels_: NDArray[np.int32]
    retrieval_: Retrieval | None = None
    class_offsets_: Array | None = None
    n_search_columns_: int = 0
    search_index_: dict[str, NDArray[Any]] | None
    _cached_index: NeighborIndex | None

    def __init__(
        self,
        similarity: Any = "auto",
        *,
        preprocess: Any = "auto",
        n_neighbors: int | Literal["auto"] = "auto",
        vote: Literal["auto"] | VoteName | Vote = "auto",
        index: str | Retrieval = "auto",
        selection: Selection | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.similarity = similarity
        self.preprocess = preprocess
        self.n_neighbors = n_neighbors
        self.vote = vote
        self.index = index
        self.selection = selection
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        neighbors: NeighborLists | None = None,
        calibration: tuple[ArrayLike, ArrayLike] | None = None,
        groups: ArrayLike | None = None,
        folder: str | os.PathLike[str] | RunFolder | None = None,
    ) -> Self:
        """Keep the rows, learn the similarity and choose what is not given.

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
        groups : (n,) array-like, optional
            Where each row comes from: rows of one film, person or document are held out together
            when settings are chosen automatically.
        folder : path or nearkin.RunFolder, optional
            Where to keep preprocessed rows, neighbour lists and the checkpoints of the learner
            (its finished members, for an ensemble). If the process dies, the same fit with the
            same folder resumes and ends with the same model; see `SLNE.fit`.
        """
        check_parameters(self)
        check_given(isinstance(self.similarity, str), calibration, groups)
        for name in ("calibration_accuracy_", "trials_", "report_"):
            self.__dict__.pop(name, None)  # an earlier fit's
        with as_run_folder(folder).claim("SoftVotingKNN.fit") as claimed:
            rng = check_random_state(claimed.seed(self.random_state))
            parts = self._parts(X, y, neighbors, groups, rng)
            check_classifier(X, parts, self.index, neighbors is not None)
            work = ClassifierFit(self, X, y, parts, neighbors, calibration)
            work.learn(claimed, rng)
            if parts.unsettled is not None:
                settle(self, parts.unsettled, work.rows, work.lists)
            work.finish()
        return self

    def _parts(
        self,
        X: ArrayLike,
        y: ArrayLike,
        neighbors: NeighborLists | None,
        groups: ArrayLike | None,
        rng: Any,
    ) -> Parts:
        """What the classifier is made of: given, or chosen on held-out rows."""
        if not isinstance(self.similarity, str):
            return given_parts(self)
        from nearkin.selection.automatic import select_parts  # which imports all that it tries

        rows, labels = labelled_rows(
            self, X, y, accept_sparse="csr", dtype=FLOATS, ensure_min_samples=2
        )
        if neighbors is not None:  # before a choice that takes minutes
            checked_lists(neighbors, len(labels))
        options = as_group("selection", self.selection, Selection)
        seed = int(rng.randint(np.iinfo(np.int32).max))
        chosen, self.trials_ = select_parts(rows, labels, groups, options, seed, self.preprocess)
        self.report_ = report(self.trials_, options.scoring)
        automatic = isinstance(self.vote, str) and self.vote == "auto"
        vote = chosen.vote if automatic else self.vote
        k = chosen.n_neighbors if isinstance(self.n_neighbors, str) else int(self.n_neighbors)
        if not automatic or neighbors is not None or isinstance(self.index, Retrieval):
            chosen = chosen._replace(unsettled=None)  # others than the nearest rows vote
        return chosen._replace(vote=vote, n_neighbors=k)

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
        self._check_fitted()
        rows, new = labelled_rows(self, X, y, reset=False, **self._accepted)
        extend(self, rows, new)
        return self

    def _check_fitted(self) -> None:
        """Refuse a fitted state, perhaps of a file, whose parts do not fit together."""
        if hasattr(self, "database_"):
            check_database(self)
            if getattr(self, "search_index_", None) is not None:
                searched_index(self)  # which compares it with the rows, once

    @property
    def _accepted(self) -> dict[str, Any]:
        if self.preprocess_ is not None:  # which may take sparse or half-precision rows
            return {"accept_sparse": "csr", "dtype": "numeric"}
        sparse = "csr" if self._chooses_preprocessing else False  # which may turn out to be none
        return {"dtype": np.float32, "order": "C", "accept_sparse": sparse}

    @property
    def _chooses_preprocessing(self) -> bool:
        return isinstance(self.similarity, str) and isinstance(self.preprocess, str)

    def state_to_save(self) -> dict[str, Any]:
        """What a file holds: with the index of many rows, which takes long to build again."""
        k, index = min(self.shortlist_length, len(self.database_)), searched_index(self)
        return vars(self) | {"search_index_": None if index is None else index.arrays(k)}

    def _queries(self, X: ArrayLike) -> tuple[Any, Array]:
        """Queries as they are given, checked, and preprocessed."""
        check_is_fitted(self, "database_")
        check_parameters(self, only=("n_neighbors", "index"))
        self._check_fitted()
        rows = validate_data(self, X, reset=False, **self._accepted)
        queries = applied(self.preprocess_, rows)
        check_squares(queries, "X")
        return rows, queries

    def prepared(self, X: ArrayLike) -> Array:
        """Rows as the model stores and compares them: checked and preprocessed."""
        return self._queries(X)[1]

    def on_prepared_rows(self) -> Self:
        """A copy for rows that are `prepared` already; rows and their index are shared.

        A retrieval is left out: it knows rows as they were given.

        Examples
        --------
        >>> X, y = np.array([[0.0, 3.0], [2.0, 0.0]]), ["north", "east"]
        >>> model = SoftVotingKNN(None, n_neighbors=1, vote="top").fit(X, y)
        >>> model.on_prepared_rows().predict(model.prepared([[1.0, 0.1]])).tolist()
        ['east']
        """
        check_is_fitted(self, "database_")
        self._check_fitted()
        inner = copy(self)
        if self.retrieval_ is None:
            inner._cached_index = row_index(self)  # built once, for both
        else:
            inner.retrieval_ = inner.search_index_ = inner._cached_index = None
            inner.index = index_description(self.index)
        inner.preprocess_ = None
        inner.n_features_in_ = self.database_.shape[1]
        inner.__dict__.pop("feature_names_in_", None)
        return inner

    @property
    def shortlist_length(self) -> int:
        """Rows on the shortlist: `n_neighbors`, also if set after a fit, or what was chosen."""
        return self.n_neighbors_ if isinstance(self.n_neighbors, str) else int(self.n_neighbors)

    def _blocks(self, X: ArrayLike, neighbors: NeighborLists | None) -> Iterator[Voters]:
        """Preprocessed queries and their voters, a block at a time."""
        return voter_blocks(self, *self._queries(X), neighbors)

    def _tallies(self, X: ArrayLike, neighbors: NeighborLists | None) -> Iterator[Array]:
        """Votes by class, a block of queries at a time."""
        return tallies(self, self._blocks(X, neighbors))

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

    @checked(n=expect.whole(1))
    def predict_top(
        self, X: ArrayLike, n: int = 5, neighbors: NeighborLists | None = None
    ) -> NDArray[Any]:
        """The `n` labels with the most votes, best first, as an (m, n) array.

        Labels of which no row is on the shortlist come last, in the order of `classes_`.
        `neighbors` as in `predict`.
        """
        check_is_fitted(self, "database_")
        if n > len(self.classes_):
            raise ValueError(f"n={n} must lie between 1 and the {len(self.classes_)} classes")
        best = [
            np.argsort(-tally, axis=1, kind="stable")[:, :n]
            for tally in self._tallies(X, neighbors)
        ]
        return self.classes_[np.concatenate(best)]

    def novelty_score(self, X: ArrayLike, neighbors: NeighborLists | None = None) -> Array:
        """How little each row of `X` resembles the stored rows: 0 like them, 1 not at all.

        One less the mean cosine, under the learned similarity, of the query and the three most
        similar rows of its shortlist. Above `novelty_threshold_` a row is likely to be of no known
        class. `neighbors` as in `predict`; a query for which none is listed has infinity.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> model = SoftVotingKNN(random_state=0).fit(X, y)
        >>> (model.novelty_score([[5.0, 3.5, 1.4, 0.2], [1, 9, 9, 1]]) > model.novelty_threshold_)
        array([False,  True])
        """
        blocks = self._blocks(X, neighbors)
        return np.concatenate([voter_novelty(self, block, indices) for block, indices in blocks])

    def vote_shares(self, X: ArrayLike, neighbors: NeighborLists | None = None) -> VoteShares:
        """How much each neighbour and each class mean adds to the probabilities of a query.

        `neighbors` as in `predict`; memory for all queries at once is needed.

        Examples
        --------
        >>> X, y = np.array([[0.0, 1.0], [0.1, 0.9], [1.0, 0.0]]), ["north", "north", "east"]
        >>> model = SoftVotingKNN(None, n_neighbors=2, vote="similarity").fit(X, y)
        >>> shares = model.vote_shares([[0.0, 1.0]])
        >>> shares.indices.tolist(), shares.neighbors.round(2).tolist()
        ([[0, 1]], [[0.5, 0.5]])
        """
        return shares(self, self._blocks(X, neighbors))

    @checked(n_neighbors=expect.optional(expect.whole(1)), rerank=expect.flag)
    def kneighbors(
        self,
        X: ArrayLike,
        n_neighbors: int | None = None,
        rerank: bool = True,
        neighbors: NeighborLists | None = None,
    ) -> tuple[Array, NDArray[np.int32]]:
        """The most similar database rows: the shortlist, re-ranked, or as it is.

        `neighbors` as in `predict`: another shortlist.

        Returns
        -------
        similarities, indices : (m, n_neighbors) arrays
            Most similar first; with ``rerank=False``, nearest first. Where an approximate index
            found fewer rows, −inf and ``-1`` fill the places.
        """
        return ranked(self, *self._queries(X), neighbors, n_neighbors, rerank)

    @checked(raw=expect.flag, metric=expect.optional(expect.choice(*METRICS)))
    def adapter(self, raw: bool = True, metric: Metric | None = None) -> Adapter:
        """The similarity as a map of queries, for an index of vectors as they are.

        It ranks by the similarity alone: votes, class means and CSLS belong to the classifier.
        See `SLNE.adapter`; a preprocessing that the index would have to apply is refused.
        """
        check_is_fitted(self, "database_")
        self._check_fitted()
        matrix = np.eye(self.database_.shape[1], dtype=np.float32)
        if self.similarity_ is not None:
            matrix = matrix_of(self.similarity_)
        return fold(matrix, self.preprocess_, raw=raw, metric=metric,
                    unit_length=getattr(self, "unit_length_", False),
                    card={"learner": " ".join(repr(self.similarity_).split())})  # fmt: skip

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file: see `nearkin.save`."""
        models.save(self, path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = getattr(self.preprocess, "__sklearn_tags__", None)
        sparse = bool(inner and inner().input_tags.sparse)
        tags.input_tags.sparse = self._chooses_preprocessing or sparse
        return tags
