"""Learners and preprocessing as parts of a larger estimator: checked, fitted."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import has_fit_parameter

from nearkin.io.run_folder import RunFolder
from nearkin.neighborhoods import NeighborLists
from nearkin.neighbors.retrieval import Retrieval
from nearkin.preprocessing.preprocess import Preprocess
from nearkin.validation import expect
from nearkin.validation.arrays import check_fitted_array
from nearkin.validation.parameters import is_fitted, require
from nearkin.voting.votes import Vote

Array = NDArray[np.float32]

SHORTLIST = 50  # rows, unless another number is given or chosen
MAX_PLAIN_COPY = 2 << 30  # bytes of rows that are copied to try plain neighbours


class Unsettled(NamedTuple):
    """What a choice on a sample leaves to all rows: see `nearkin.selection.full_size`.

    Attributes
    ----------
    held : (n,) bool array
        Rows to settle it on: nothing is fitted with their labels.
    plain : list
        Preprocessings of which plain neighbours contend.
    scoring : str
    groups : (n,) array, optional
        Rows of one group do not vote on each other.
    """

    held: NDArray[np.bool_]
    plain: list[Any]
    scoring: str
    groups: NDArray[np.integer] | None = None


class Parts(NamedTuple):
    """What a soft-voting classifier is made of; none of it is fitted, unless it was given so."""

    similarity: Any
    preprocess: Any
    n_neighbors: int
    vote: Any
    novelty_threshold: float | None = None
    unsettled: Unsettled | None = None


def given_parts(model: Any) -> Parts:
    """The parts of a classifier whose similarity is given."""
    _check_index(model.similarity)
    own = isinstance(model.preprocess, str)
    given = None if own else model.preprocess
    similarity, preprocess = _take_preparation(model.similarity, given, own)
    k = SHORTLIST if isinstance(model.n_neighbors, str) else int(model.n_neighbors)
    return Parts(similarity, preprocess, k, model.vote)


def truncate_lists(lists: NDArray[np.int32] | None, learner: Any) -> NDArray[np.int32] | None:
    """As many neighbours as the learner wants; the shortlist may be longer."""
    wanted = getattr(learner, "n_neighbors", None)
    return lists if lists is None or wanted is None else lists[:, :wanted]


def _take_preparation(similarity: Any, preprocess: Any, own: bool) -> tuple[Any, Any]:
    """A similarity for preprocessed rows, and the preprocessing of a classifier that uses it.

    What a learner would do to its rows the classifier does for all: it searches and votes among
    them, too. With `own` that becomes the preprocessing; else `preprocess` takes its place.
    """
    fitted = getattr(similarity, "preparation_", None)
    if fitted is not None:
        if preprocess is not None:
            raise ValueError(
                f"preprocess={type(preprocess).__name__} and a similarity that prepares rows "
                "itself: leave preprocess out, or fit the similarity on preprocessed rows with "
                "prepare=None"
            )
        return similarity.without_preparation(), fitted
    prepare = getattr(similarity, "prepare", None)
    if prepare is None or is_fitted(similarity):
        return similarity, preprocess
    if own:  # by labels it must not be: the vote is judged on rows held out later
        preprocess = Preprocess() if isinstance(prepare, str) else prepare
    return similarity.unprepared(), preprocess


def learn(
    learner: Any,
    rows: Array,
    y: ArrayLike,
    neighbors: NeighborLists | None,
    folder: RunFolder,
    held: NDArray[np.bool_] | None = None,
) -> Any:
    """Fit a learner without the held-out rows, which `neighbors` no longer mentions."""
    if has_fit_parameter(learner, "neighbors"):
        resumes = folder.durable and has_fit_parameter(learner, "folder")
        also = {"folder": folder.sub("learner")} if resumes else {}
        return learner.fit(rows, y, neighbors=neighbors, **also)
    chosen = slice(None) if held is None else ~held
    return learner.fit(rows[chosen], np.asarray(y)[chosen])


def _check_index(similarity: Any) -> None:
    """Refuse a learner with a retrieval that its classifier would not use."""
    index = getattr(getattr(similarity, "_execution", None), "index", None)
    if isinstance(index, Retrieval) and not is_fitted(similarity):
        raise ValueError(
            "similarity.execution.index is a Retrieval, but SoftVotingKNN searches for its "
            "learner, too; give it as SoftVotingKNN(index=Retrieval(...))"
        )


def check_given(automatic: bool, calibration: Any, groups: Any) -> None:
    """Refuse arguments of a fit that are of no use to its similarity, automatic or not."""
    if calibration is not None:
        _check_calibration(calibration)
        if automatic:
            raise ValueError(
                "calibration chooses the vote of a given similarity; similarity='auto' holds "
                "rows out itself: leave calibration out, or give a similarity"
            )
    if groups is not None and not automatic:
        raise ValueError(
            "groups are held out together when similarity='auto' chooses; with a given "
            "similarity leave groups out"
        )


def _check_calibration(calibration: Any) -> None:
    """Refuse what is no pair of rows and labels to choose a vote on."""
    if not isinstance(calibration, tuple | list) or len(calibration) != 2:
        many = f" of {len(calibration)}" if isinstance(calibration, tuple | list) else ""
        raise ValueError(
            f"calibration is a {type(calibration).__name__}{many}; a pair is expected: "
            "fit(..., calibration=(rows, labels))"
        )
    rows, labels = (np.shape(part) for part in calibration)  # of sparse rows, too
    if len(rows) != 2 or labels != rows[:1]:
        raise ValueError(
            f"calibration holds rows of shape {rows} and labels of shape {labels}; a "
            "two-dimensional array of rows and one label for each are expected"
        )


def check_database(model: Any) -> None:
    """Refuse a fitted classifier whose rows, labels, similarity and vote do not fit together."""
    check_fitted_array("database_", model.database_, (None, None))
    n, D = model.database_.shape
    check_fitted_array("labels_", model.labels_, (n,), "iu")
    check_fitted_array("csls_bias_", model.csls_bias_, (n,))
    check_fitted_array("class_means_", model.class_means_, (len(model.classes_), D))
    if model.class_offsets_ is not None:
        check_fitted_array("class_offsets_", model.class_offsets_, (len(model.classes_), D))
    require("n_neighbors_", model.n_neighbors_, expect.whole(1))
    check_fitted_array("classes_", model.classes_, (None,), "biufUSOMm")
    if not n or not 0 <= model.labels_.min() <= model.labels_.max() < len(model.classes_):
        raise ValueError(f"labels_ must be places among {len(model.classes_)} classes_; fit again")
    if not isinstance(getattr(model, "vote_", Vote("power")), Vote):  # a fit chooses it last
        raise ValueError(f"vote_={model.vote_!r} must be a Vote; fit again")
    require("n_search_columns_", model.n_search_columns_, expect.whole(0, D))
    require("scale_", model.scale_, expect.number(0))
    known = getattr(model, "novelty_threshold_", None)
    require("novelty_threshold_", known, expect.optional(expect.number()))
    if model.retrieval_ is not None:
        require("retrieval_", model.retrieval_, expect.group(Retrieval))
        if model.retrieval_.kind != "function":
            check_fitted_array("vectors_", model.retrieval_.vectors_, (n, None), owner="retrieval_")
    matrix = getattr(model.similarity_, "matrix_", None)
    if matrix is not None:
        check_fitted_array("matrix_", matrix, (D, D), owner="similarity_")
    directions = getattr(model.preprocess_, "directions_", None)
    out = getattr(model.preprocess_, "_n_features_out", D)
    if directions is not None and out != D:
        raise ValueError(f"preprocess_ makes rows of {out} columns, database_ has {D}; fit again")
