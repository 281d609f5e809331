"""The candidates: preprocessings that rows may start from, and learners to follow them.

Measured on training rows of digits, USPS, letter, MNIST, Fashion-MNIST, covtype, Caltech-101 (LLC
codes and network embeddings) and text embeddings: none is best everywhere. Groups are tried in
turn, each derived from the best of the groups before.
"""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from nearkin.learning.preparation import MAX_WITHIN_CLASS
from nearkin.preprocessing.fourier import FourierFeatures
from nearkin.preprocessing.preprocess import Preprocess
from nearkin.preprocessing.unit_length import UnitLength
from nearkin.preprocessing.within_class import WithinClassWhitening

WHITENING = (0.0, 0.25, 0.5, 0.75)
START_COMPONENTS, COMPONENTS = 100, (25, 50, 200, 500, 1_000)
SHRINKAGE = (0.3, 3.0)
SHORTLISTS, CSLS = (10, 25, 50, 100), (0.25, 0.5)  # lengths; shares
LONG_SHORTLISTS = (400, 1_000)  # of wide rows, which are few and far from each other
# What `nearkin try` chooses from, too: preparations that fold into the query.
INDEX_PREPARATIONS = (
    WithinClassWhitening(1.0, unit_length=False),
    WithinClassWhitening(4.0, unit_length=False),
    WithinClassWhitening(0.3, outside=0.3, unit_length=False),
    WithinClassWhitening(0.03, outside=0.5, unit_length=False),
)
BANDWIDTH, BANDWIDTHS, LINEAR = 1.8, (1.2, 2.5), 0.5  # the first, others where it is best
# M has a number for each pair of columns: beyond, a gigabyte and more. The principal directions of
# wide rows, all of which are candidates, lose nothing.
MAX_UNREDUCED = 10_000
# Random features approximate a Gaussian kernel well only in few dimensions; beside linear ones
# they help in more, where rows are many.
MAX_FOURIER, MAX_BESIDE = 64, 128
LEAST_FEATURES, MOST_FEATURES = 50, 160  # of them; a quarter of the rows to learn from in between


class Starts:
    """Preprocessings for data of one shape and kind."""

    def __init__(
        self, rows: Any, kept: int, seed: int, wide: bool, linear: bool = False, given: bool = False
    ) -> None:
        self.given = given  # by the user, who gets no other
        self.linear = linear  # only what folds into the query
        self.columns, self.kept, self.seed = rows.shape[1], kept, seed
        self.most = min(int(0.98 * kept) or 1, self.columns)
        self.wide = wide  # more columns than rows, of all rows
        self.positive = _smallest(rows) >= 0 and _varied(rows)

    def plain(self) -> list[Any]:
        """What a user has: rows as they are, by distance and by cosine."""
        return [None, UnitLength()]

    def whitened(self) -> list[Preprocess]:
        """Principal directions, more or less whitened."""
        n = None if self.wide else min(START_COMPONENTS, self.most)  # of wide rows, all
        unit, seed = not self.linear, self.seed
        return [Preprocess(n, whitening=w, unit_length=unit, random_state=seed) for w in WHITENING]

    def reduced(self, best: Preprocess) -> list[Preprocess]:
        """The best of them with other numbers of directions."""
        if self.wide:
            return []
        some = {n for n in COMPONENTS if self.most / 20 <= n <= 0.7 * self.most}
        counts = (some | {self.most}) - {best.n_components}
        return [clone(best).set_params(n_components=n) for n in sorted(counts)]

    def unreduced(self) -> list[UnitLength]:
        """Rows as they are, of unit length."""
        return [] if self.columns > MAX_UNREDUCED else [UnitLength()]

    def widened(self, best: Any) -> list[Preprocess]:
        """Twice as many directions: the more rows, the more of them are worth having."""
        if self.given or not isinstance(best, Preprocess) or best.n_components is None:
            return []
        n = min(self.most, 2 * best.n_components)
        return [clone(best).set_params(n_components=n)] if n > best.n_components else []

    def powered(self, best: Any) -> list[Any]:
        """Square roots of the entries, of counts and of outputs of rectified units."""
        if self.linear or not self.positive or best is None:
            return []
        return [clone(best).set_params(power=0.5)]

    def within_class(self, best: Any) -> list[WithinClassWhitening]:
        """Whitening by the covariance within classes."""
        if self.columns > MAX_WITHIN_CLASS:
            return []
        if self.linear:
            return [clone(preparation) for preparation in INDEX_PREPARATIONS]
        power = getattr(best, "power", 1.0)
        return [WithinClassWhitening(s, power=power) for s in SHRINKAGE]

    def fourier(self, best: Any) -> list[FourierFeatures]:
        """A non-linear similarity beside the linear one, for few dimensions."""
        columns = getattr(best, "n_components", None) or self.columns
        if self.linear or columns > MAX_FOURIER or isinstance(best, UnitLength):
            return []
        return [self._waves(best)]

    def bandwidths(self, best: Any) -> list[FourierFeatures]:
        """Where that is best, of other bandwidths, and the non-linear similarity alone."""
        if not isinstance(best, FourierFeatures):
            return []
        pairs = [(b, LINEAR) for b in BANDWIDTHS] + [(max(BANDWIDTHS), 0.0)]
        return [clone(best).set_params(bandwidth=b, linear=share) for b, share in pairs]

    def beside_fourier(self, best: Any) -> list[FourierFeatures]:
        """The best start with a non-linear similarity beside it, which wants many rows."""
        known = isinstance(best, Preprocess) and best.n_components is not None
        if self.given or self.linear or not known or best.n_components > MAX_BESIDE:
            return []
        return [self._waves(best)]

    def finer(self, best: Any) -> Any:
        """The start with all the random features that so many rows deserve.

        Half of them ranks starts and learners alike, at a third of the cost.
        """
        if self.given or not isinstance(best, FourierFeatures):
            return best
        return clone(best).set_params(n_features=max(best.n_features, self._features))

    def _waves(self, best: Any) -> FourierFeatures:
        before, n = clone(best).set_params(unit_length=False), self._features // 2
        return FourierFeatures(
            before, n_features=n, bandwidth=BANDWIDTH, linear=LINEAR, random_state=self.seed
        )

    @property
    def _features(self) -> int:
        return int(np.clip(self.kept // 4, LEAST_FEATURES, MOST_FEATURES))


def _smallest(rows: Any) -> float:
    return float(rows.data.min(initial=0) if sparse.issparse(rows) else rows.min())


def _varied(rows: Any) -> bool:
    """Whether entries are more than zeros and ones, which a power leaves as they are."""
    sample = rows[:100].data if sparse.issparse(rows) else np.asarray(rows[:100])
    return len(np.unique(sample)) > 2
