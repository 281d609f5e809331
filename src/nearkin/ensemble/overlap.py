"""Directions that several members hold.

Where blocks are wider than there are directions for, they overlap. Added up as they are, the
ensemble would start with some directions counted twice and others once, and what members learn of
a pair of directions, each from the same scores, would be made as often as there are members that
hold both. So each counts as one of so many: the sum starts at the identity, and changes are means.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from nearkin.ensemble.projections import Projection

Array = NDArray[np.float32]


@dataclass(frozen=True)
class Overlap:
    """The directions of each member, as their places in one basis."""

    places: list[NDArray[np.int64]]

    @classmethod
    def of(cls, projections: "Sequence[Projection]") -> Self | None:
        """The overlap of blocks of directions; None of others, and where no direction is shared."""
        dealt = [getattr(P, "places", None) for P in projections]
        places = [one for one in dealt if one is not None]
        if len(places) < len(dealt):
            return None
        distinct = len(np.unique(np.concatenate(places)))
        return cls(places) if distinct < sum(map(len, places)) else None

    def shares(self, n: int) -> Array:
        """The (d, d) factors of what member `n` learned: 1 / members that hold both directions.

        Examples
        --------
        >>> Overlap([np.array([0, 1]), np.array([1, 2])]).shares(0)
        array([[1. , 1. ],
               [1. , 0.5]], dtype=float32)
        """
        held = np.array([np.isin(self.places[n], other) for other in self.places], np.float32)
        return np.float32(1) / (held.T @ held)
