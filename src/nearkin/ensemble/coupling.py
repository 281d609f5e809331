"""Members that take account of each other while they learn.

The similarity of an ensemble is a sum. A member that looks at its own term alone learns from
triplets that the others have long got right, and in few dimensions from noise. A coupled member
scores a pair by the whole sum: its own term, and as an offset what the others give the pair. Each
step is still O(d²), and so is what a member learns.

``start``: the others are where they start, at the identity. None waits for another, so members
are learned in parallel. ``boosted``: members before it are as they were learned, so that a member
learns what the ensemble so far gets wrong (gradient boosting with Algorithm 1 as the weak learner;
compare BIER, Opitz et al. 2017). One after the other: not parallel.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from nearkin.ensemble.overlap import Overlap
from nearkin.learning.objective import edge_scores
from nearkin.native.blas import multiply_into, serial_blas
from nearkin.neighborhoods import Neighborhoods

if TYPE_CHECKING:
    from nearkin.ensemble.projections import Projection

Array = NDArray[np.float32]

Coupling = Literal["auto", "none", "start", "boosted"]


def start_scores(
    X: Array,
    hoods: Neighborhoods,
    projections: "Iterable[Projection]",
    overlap: Overlap | None = None,
) -> Array:
    """What the ensemble gives each edge before anything is learned: ``x_iᵀ (Σ PᵀP) x_j``.

    Directions that several members hold count once.
    """
    whole = np.zeros((X.shape[1], X.shape[1]), np.float32)
    with serial_blas():
        for n, P in enumerate(projections):
            matrix = P.matrix()
            if overlap:
                matrix = matrix * np.sqrt(overlap.shares(n).diagonal())[:, None]
            multiply_into(whole, matrix, matrix, keep=1, left_transposed=True)
        return edge_scores(X, hoods.arrays, whole)


def own_scores(rows: Array, hoods: Neighborhoods, M: Array | None = None) -> Array:
    """A member's term for each edge, from its projected rows; under the identity if left out."""
    with serial_blas():
        d = rows.shape[1]
        return edge_scores(rows, hoods.arrays, np.eye(d, dtype=np.float32) if M is None else M)


@dataclass(frozen=True)
class Units:
    """The units in which members learn: of the whole data, as the paper's constants are.

    SLNE divides by the mean squared length of the rows it is given. A PCA block holds a part of
    that length: measured by itself, a block of little variance would step as far as the first.

    Where projections overlap, as random ones do, members that learn at the same time make about
    the same change, `alike` times over; each then must foresee that, or all of them together
    overshoot. Blocks of directions share nothing, or are `shared` out by an `Overlap`.
    """

    scale: float  # mean squared length of the rows
    own: list[float]  # and of each member's
    coupling: str
    shared: bool = False

    @property
    def overlap(self) -> float:
        """In how many members a direction of the rows is, on average."""
        return 1.0 if self.shared else max(1.0, sum(self.own) / self.scale)

    def alike(self, n: int) -> float:
        """How many times over the change of member `n` is made, by those not learned before it."""
        learned = n / len(self.own) if self.coupling == "boosted" else 0.0
        return max(1.0, self.overlap * (1 - learned))

    def learner(self, n: int, learner: Any) -> Any:
        """A clone that learns member `n` in these units."""
        learner = clone(learner)
        if hasattr(learner, "_rule") and self.own[n] > 0:
            scores, step_size = self.scale, learner._step_size
            if self.coupling != "none":
                scores *= self.overlap / self.alike(n)
                # A block changes a pair's score by its share of what all directions would; a rule
                # of all pairs has few violations left to step from, and can make up for that.
                if learner.step_size is None and len(self.own) > 1:
                    step_size *= learner._rule.member_steps
            rule = learner._rule.scaled(scores / self.own[n])
            learner.set_params(sampling=rule, step_size=step_size / (self.scale / self.own[n]))
        return learner
