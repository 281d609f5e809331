"""Retrieval: neighbour search in another feature space than the one M is learned in.

In the paper a retrieval system of its own supplies the neighbourhoods of training rows and of
queries, and the similarity that is learned re-ranks what it finds.
"""

import inspect
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, ClassVar, Literal, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from nearkin.io.fingerprint import Digest
from nearkin.io.run_folder import RunFolder
from nearkin.neighbors.base import Array
from nearkin.neighbors.index import NeighborIndex, check_k, index_of
from nearkin.neighbors.lists import without_self
from nearkin.neighbors.registry import IndexDescription, index_problem
from nearkin.preprocessing.prepared import prepared
from nearkin.preprocessing.transformers import learns_from_labels
from nearkin.validation import expect
from nearkin.validation.arrays import as_rows, check_fitted_array
from nearkin.validation.parameters import (
    ParameterGroup,
    Table,
    check_parameters,
    checked,
    is_fitted,
)

Lists = NDArray[np.int32]
Kind = Literal["transformer", "vectors", "function"]
RetrievalT = TypeVar("RetrievalT", bound="Retrieval")


def source_problem(value: Any) -> str | None:
    """What is wrong with the source of a `Retrieval`, or None: an `Expectation`."""
    if isinstance(value, type):
        return f"an object, not a class: give {value.__name__}()"
    right = value is None or hasattr(value, "transform") or _is_array(value) or _takes_two(value)
    return None if right else (
        "a transformer such as Preprocess(), an array of the rows' other vectors, a function of "
        "queries and k, or None"
    )  # fmt: skip


def retrieval_problem(value: Any) -> str | None:
    """What is wrong with an ``index=``, a description or a `Retrieval`, or None."""
    if isinstance(value, Retrieval):
        return None
    problem = index_problem(value)
    return problem and f"{problem}; or Retrieval(...)"


class Retrieval(ParameterGroup):
    """Neighbour search in another feature space than the one the similarity is learned in.

    Give it as the ``index=`` of `Execution` or `SoftVotingKNN`.

    Parameters
    ----------
    source : transformer, (n, D') array, function or None
        Where neighbours are searched. In what a transformer such as `Preprocess` makes of the rows
        as they were given (it is fitted along, unless it is fitted); in other vectors of the same
        rows; or by a function of queries and k that returns an (m, k) array of row numbers, nearest
        first and ``-1`` in empty places. It is called with the training rows, too, and may list a
        row as its own neighbour. None: the rows as they were given.
    index : str
        How: see `nearkin.neighbors.nearest`. A function needs none.

    Attributes
    ----------
    transformer_ : fitted transformer, or None
    vectors_ : (n, D') float32 array
        What is searched; a function has none.

    Examples
    --------
    >>> from nearkin import Preprocess, SLNE, SoftVotingKNN
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> roots = Retrieval(Preprocess(power=0.5))
    >>> learner = SLNE(prepare=None, n_neighbors=50, random_state=0)
    >>> model = SoftVotingKNN(learner, index=roots, vote="power").fit(X[::2], y[::2])
    >>> lists = roots.fit(X[::2]).lists(50, X[1::2])  # the rows that vote
    >>> bool((model.predict(X[1::2]) == model.predict(X[1::2], neighbors=lists)).all())
    True
    """

    PARAMETERS: ClassVar[Table] = {"source": source_problem, "index": index_problem}

    transformer_: Any
    vectors_: Array
    _cached_index: NeighborIndex | None
    _cached_rows: Any

    def __init__(self, source: Any = None, index: IndexDescription = "auto") -> None:
        self.source = source
        self.index = index

    @property
    def kind(self) -> Kind:
        """What the source is; None is a transformer that changes nothing."""
        if _is_array(self.source):  # a data frame has a transform, too
            return "vectors"
        plain = self.source is None or hasattr(self.source, "transform")
        return "transformer" if plain else "function"

    @property
    def description(self) -> str:
        """The same text for the same retrieval, to be compared before work is resumed."""
        text: dict[Kind, Callable[[], str]] = {
            "transformer": lambda: " ".join(repr(self.source).split()),
            "vectors": lambda: str(Digest(self.source)),
            "function": lambda: getattr(self.source, "__qualname__", type(self.source).__name__),
        }
        return f"Retrieval({text[self.kind]()}, {self.index!r})"

    def __sklearn_clone__(self) -> Self:
        source = clone(self.source) if hasattr(self.source, "get_params") else self.source
        return type(self)(source, self.index)  # vectors may be large: no copy

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in super().__getstate__().items() if not k.startswith("_cached")}

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Fit the transformer, unless it is fitted, on rows as they are given, and index them.

        Parameters
        ----------
        X : (n, D) array-like
            With other vectors of the same rows, only their number counts.
        y : (n,) array-like, optional
            Labels, for a transformer that needs them.
        """
        check_parameters(self)
        transformer = self.source if self.kind == "transformer" else None
        if transformer is not None and not is_fitted(transformer):
            transformer = clone(transformer).fit(X) if y is None else clone(transformer).fit(X, y)
        return keep(self, X, transformer)

    @checked(k=expect.whole(1))
    def lists(self, k: int, queries: ArrayLike | None = None) -> Lists:
        """The `k` nearest rows of each query, or of each row but itself: for any ``neighbors=``.

        Parameters
        ----------
        k : int
        queries : (m, D) array-like, optional
            Rows like those of `fit`; with a source of vectors, vectors like those.

        Returns
        -------
        indices : (m, k) int32 array
            Nearest first; ``-1`` in places that stay empty.
        """
        check_is_fitted(self, "transformer_")
        check_parameters(self)  # which may be set after a fit
        if self.kind == "function":
            return self._asked(k, queries)
        found = searchable(self)
        assert found is not None
        if queries is None:
            return found.lists(k)
        return found.nearest(k, self._transformed(queries))[1]

    def _transformed(self, X: Any) -> Any:
        """Rows as they are searched; those of a source of vectors already are."""
        if self.transformer_ is None:
            return X.toarray() if hasattr(X, "toarray") else X
        made = self.transformer_.transform(X)
        made = made.toarray() if hasattr(made, "toarray") else made
        return np.ascontiguousarray(made, np.float32)

    def _asked(self, k: int, queries: Any) -> Lists:
        """What a function says, checked; a row's own place is left out."""
        rows = getattr(self, "_cached_rows", None)
        if rows is None:
            raise NotFittedError("this Retrieval is of another process; fit it again")
        n = np.shape(rows)[0]
        check_k(k, n, exclude_self=queries is None)
        asked = rows if queries is None else queries
        found = _checked_lists(self.source(asked, k + (queries is None)), np.shape(asked)[0], n)
        if queries is None:
            found = without_self(found, np.arange(n))
        lists = np.full((len(found), k), -1, np.int32)
        lists[:, : found.shape[1]] = found[:, :k]
        return lists

    def _check_fitted(self) -> None:
        """Refuse vectors, perhaps of a file, that are none."""
        if hasattr(self, "vectors_"):
            check_fitted_array("vectors_", self.vectors_, (None, None))


def keep(retrieval: RetrievalT, X: Any, transformer: Any, vectors: Any = None) -> RetrievalT:
    """Let a retrieval search among rows `X`; their `vectors` by the transformer may be known."""
    retrieval.transformer_ = transformer
    retrieval._cached_index, retrieval._cached_rows = None, X
    if retrieval.kind == "vectors":
        retrieval.vectors_ = as_rows(retrieval.source, "source")
        if len(retrieval.vectors_) != np.shape(X)[0]:
            raise ValueError(
                f"source has {len(retrieval.vectors_)} rows and X has {np.shape(X)[0]}; vectors of "
                "the same rows are expected"
            )
    elif retrieval.kind == "transformer":
        known = retrieval._transformed(X) if vectors is None else vectors
        retrieval.vectors_ = as_rows(known, "X" if transformer is None else "source.transform(X)")
    return retrieval


def searchable(
    retrieval: Retrieval, kept: Mapping[str, NDArray[Any]] | None = None
) -> NeighborIndex | None:
    """The index of a retrieval's vectors, perhaps from a file; a function has none."""
    if retrieval.kind == "function":
        return None
    if getattr(retrieval, "_cached_index", None) is None:
        check_is_fitted(retrieval, "vectors_")
        vectors = as_rows(retrieval.vectors_, "vectors_")
        retrieval._cached_index = index_of(vectors, retrieval.index, kept)
    return retrieval._cached_index


def kept_lists(retrieval: Retrieval, k: int, folder: RunFolder) -> Lists:
    """Lists of a retrieval's own rows, kept in a folder.

    Those of a function are not: whether it is still the same cannot be told.
    """
    if retrieval.kind == "function":
        return retrieval.lists(k)
    inputs = {"n_neighbors": k, "index": retrieval.index, "X": Digest(retrieval.vectors_)}
    return folder.part("neighbors", inputs, lambda: {"indices": retrieval.lists(k)})["indices"]


def over(retrieval: Retrieval, X: Any, advice: str = "give neighbors=") -> Retrieval:
    """A fitted retrieval over other rows."""
    _require_transformer(retrieval, "the neighbours of other rows", advice)
    return keep(Retrieval(retrieval.source, retrieval.index), X, retrieval.transformer_)


def extended_retrieval(retrieval: Retrieval, X: Any) -> Retrieval:
    """A fitted retrieval over its rows and new ones."""
    _require_transformer(retrieval, "the neighbours of new rows", "fit again on all rows")
    vectors = np.concatenate([retrieval.vectors_, as_rows(retrieval._transformed(X), "X")])
    return keep(Retrieval(retrieval.source, retrieval.index), None, retrieval.transformer_, vectors)


def without_rows(retrieval: Retrieval) -> Retrieval:
    """A fitted retrieval without its rows: what others need."""
    alone = Retrieval(retrieval.source, retrieval.index)
    alone.transformer_ = retrieval.transformer_
    return alone


def _require_transformer(retrieval: Retrieval, what: str, advice: str) -> None:
    if retrieval.kind != "transformer":
        of = "vectors" if retrieval.kind == "vectors" else "a function"
        raise ValueError(f"index=Retrieval(...) of {of} cannot find {what}; {advice}")


def retrieved(retrieval: Retrieval, k: int, rows: Any) -> Lists:
    """The nearest rows of queries, of which the rows as given are known."""
    if retrieval.kind == "vectors":
        raise ValueError(
            "index=Retrieval(vectors) knows the stored rows by other vectors, and queries need "
            f"theirs; give neighbors=model.retrieval_.lists({k}, vectors of the queries)"
        )
    return retrieval.lists(k, rows)


def _takes_two(function: Any) -> bool:
    """Whether something can be asked for k rows near some queries, as far as it tells."""
    if not callable(function):
        return False
    try:
        inspect.signature(function).bind("queries", "k")
    except TypeError:
        return False
    except ValueError:  # a compiled function that has no signature
        return True
    return True


def index_description(index: Any) -> str:
    """The back end of an ``index=``, which may be a retrieval."""
    return index.index if isinstance(index, Retrieval) else index


def refuse_retrieval(index: Any, why: str) -> None:
    """Refuse a retrieval where it would play no part."""
    if isinstance(index, Retrieval):
        raise ValueError(f"index=Retrieval(...) has no effect: {why}; give the name of an index")


def _is_array(value: Any) -> bool:
    return isinstance(value, list | tuple) or hasattr(value, "__array__")


def _checked_lists(found: Any, queries: int, n: int) -> NDArray[np.integer]:
    """Lists of a function of the user's own."""
    lists = np.asarray(found)
    if lists.ndim != 2 or len(lists) != queries:
        raise ValueError(
            f"source returned an array of shape {lists.shape} for {queries} queries; row numbers "
            f"of shape ({queries}, k) are expected, with -1 in empty places"
        )
    if lists.dtype.kind not in "iu" or (lists.size and not -1 <= lists.min() <= lists.max() < n):
        raise ValueError(
            f"source returned {lists.dtype} for {n} rows; row numbers from 0 to {n - 1} are "
            "expected, with -1 in empty places"
        )
    return lists.astype(np.int64)


def fitted_retrieval(
    index: str | Retrieval, rows: Any, y: NDArray[Any], rng: Any, folder: RunFolder
) -> Retrieval | None:
    """The retrieval that an ``index=`` may be, fitted on rows as they were given."""
    if isinstance(index, str):
        return None
    retrieval = Retrieval(index.source, index.index)
    if retrieval.kind != "transformer":
        return keep(retrieval, rows, None)
    own = deepcopy(rng)  # so that all else is as with ready-made lists
    made = prepared(index.source, rows, y, own, folder.sub("retrieval"))
    return keep(retrieval, rows, *made)


def check_unlabelled(index: str | Retrieval, what: str) -> None:
    """Refuse a retrieval that has seen the labels of rows which are to judge."""
    if isinstance(index, Retrieval) and learns_from_labels(index.source):
        raise ValueError(
            f"{what}, and index=Retrieval({type(index.source).__name__}(...)) learns from labels; "
            "give it a transformer that does not"
        )
