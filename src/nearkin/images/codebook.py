"""The codebook: k-means words, and descriptors encoded as combinations of a few of them."""

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from nearkin.images.llc_coding import codes, nearest_words
from nearkin.native.threads import before_openmp
from nearkin.validation import expect
from nearkin.validation.arrays import check_fitted_array, check_squares, validate_data
from nearkin.validation.parameters import Table, check_parameters

ITERATIONS = 25
LARGEST_WORD = 1e18  # squares of larger numbers are beyond float32


class Codebook(TransformerMixin, BaseEstimator):
    """Words found by k-means; transforms descriptors to their LLC codes.

    Parameters
    ----------
    n_words : int
        Number of words.
    n_neighbors : int
        Number of nearest words that encode a descriptor.
    beta : float
        Regularisation of the codes, relative to the trace of the local covariance.
    random_state : int or None
        Seed of k-means.

    Attributes
    ----------
    words_ : array of shape (n_words, n_features)
        The words, float32.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 8))
    >>> codebook = Codebook(n_words=16, n_neighbors=3).fit(X)
    >>> codes = codebook.transform(X)
    >>> codes.shape, codes[0].nnz, round(float(codes[0].sum()), 3)
    ((500, 16), 3, 1.0)
    """

    PARAMETERS: ClassVar[Table] = {
        "n_words": expect.whole(1),
        "n_neighbors": expect.whole(1),
        "beta": expect.number(above=0, high=1e6),
        "random_state": expect.seed,
    }

    def __init__(
        self,
        n_words: int = 2048,
        n_neighbors: int = 5,
        beta: float = 1e-4,
        random_state: int | None = 0,
    ) -> None:
        self.n_words = n_words
        self.n_neighbors = n_neighbors
        self.beta = beta
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the words of descriptors, one per row."""
        check_coding(self)
        X = self._rows(X, reset=True)
        if len(X) < self.n_words:
            raise ValueError(
                f"n_words={self.n_words} needs at least as many descriptors, got "
                f"n_samples={len(X)}: give more images, or lower n_words"
            )
        import faiss

        before_openmp("Codebook.fit")
        kmeans = faiss.Kmeans(
            X.shape[1],
            self.n_words,
            niter=ITERATIONS,
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
            # Without this faiss writes a warning of its own to standard error.
            min_points_per_centroid=1,
        )
        kmeans.train(X)
        self.words_ = np.ascontiguousarray(kmeans.centroids, dtype=np.float32)
        return self

    def transform(self, X: Any) -> csr_matrix:
        """Codes of descriptors: a sparse row of n_words, `n_neighbors` of them set, sum one."""
        check_is_fitted(self)
        self._check_fitted()
        X = self._rows(X, reset=False)
        nearest = nearest_words(X, self.words_, self.n_neighbors)
        weights = codes(X, self.words_, nearest, self.beta)
        starts = np.arange(0, nearest.size + 1, self.n_neighbors)
        return csr_matrix(
            (weights.ravel(), nearest.ravel(), starts), shape=(len(X), len(self.words_))
        )

    def _check_fitted(self) -> None:
        """Refuse words, perhaps of a file, that do not fit the other parameters."""
        if hasattr(self, "words_"):
            check_words(self, self.n_features_in_)

    def _rows(self, X: Any, reset: bool) -> NDArray[np.float32]:
        rows: NDArray[np.float32] = validate_data(self, X, dtype=np.float32, order="C", reset=reset)
        check_squares(rows, "X")
        return rows

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags


def check_words(encoder: Any, width: int) -> None:
    """Check the words of a `Codebook` or an `LLC` and the parameters they are used with."""
    check_parameters(encoder)
    words = encoder.words_
    check_fitted_array("words_", words, (None, width))
    if words.dtype != np.float32 or not len(words) or not np.abs(words).max() < LARGEST_WORD:
        raise ValueError("words_ must be float32 numbers, at least one word; fit again")
    if encoder.n_neighbors > len(words):
        raise ValueError(
            f"n_neighbors={encoder.n_neighbors} must be at most {len(words)}, the number of words"
        )


def check_coding(encoder: Any) -> None:
    """Check the parameters of a `Codebook`, or of an `LLC`, which has the same."""
    check_parameters(encoder)
    if encoder.n_neighbors > encoder.n_words:
        raise ValueError(
            f"n_neighbors={encoder.n_neighbors} must be at most n_words={encoder.n_words}; lower "
            "it or raise n_words"
        )
