"""Joint refinement of an ensemble: coordinate descent over its members (Section 3.1).

The members take turns: one runs an epoch of SL-NE steps on the objective of the whole ensemble
while the others are fixed. Their contribution to the score of each edge (a row and one of its
neighbours) is computed once per epoch and added as an offset.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nearkin.learning.objective import edge_scores, objective
from nearkin.native.blas import multiply_into, serial_blas
from nearkin.neighborhoods import Neighborhoods

if TYPE_CHECKING:
    from nearkin.ensemble.projections import Projection

Array = NDArray[np.float32]


def refine(
    X: Array,
    hoods: Neighborhoods,
    ensemble: list["JointMember"],
    margin: float,
    rounds: int,
    history: list[dict[str, float]],
) -> None:
    """Update the members in place, round by round; keep a change only if the objective falls.

    `history` gets one entry per update: round, member, objective before and after, kept. After an
    interrupt the members are as the last entry left them.
    """
    with serial_blas():
        total = np.zeros(len(hoods.indices), np.float32)
        for member in ensemble:
            total += member.contribution(member.rows(X), hoods)
        for number in range(rounds):
            for n, member in enumerate(ensemble):
                result = _update(X, hoods, member, total, margin, number)
                history.append({"round": number + 1, "member": n} | result)


@dataclass
class JointMember:
    """A member of the ensemble, and the learner that continues its training."""

    projection: "Projection"
    matrix: Array
    weight: float
    learner: Any
    epochs: int

    def rows(self, X: Array) -> Array:
        """The projected rows."""
        P = self.projection.matrix()
        out = np.empty((len(X), len(P)), np.float32)
        multiply_into(out, X, P, right_transposed=True)
        return out

    def contribution(self, rows: Array, hoods: Neighborhoods) -> Array:
        """The member's part of the ensemble's score of each edge."""
        return np.float32(self.weight) * edge_scores(rows, hoods.arrays, self.matrix)


def _update(
    X: Array, hoods: Neighborhoods, member: JointMember, total: Array, margin: float, number: int
) -> dict[str, float]:
    """Update one member, and `total`, the ensemble's score of each edge, if the objective falls."""
    rows = member.rows(X)
    others = total - member.contribution(rows, hoods)
    before = objective(hoods.arrays, total, margin)
    changed = replace(member, matrix=_epoch(rows, hoods, member, others, number))
    new = others + changed.contribution(rows, hoods)
    after = objective(hoods.arrays, new, margin)
    if after < before:
        total[:], member.matrix = new, changed.matrix
    return {"before": before, "after": after, "kept": after < before}


def _epoch(
    rows: Array, hoods: Neighborhoods, member: JointMember, others: Array, number: int
) -> Array:
    """An epoch of Algorithm 1 in which each score includes the offset of the other members."""
    learner = member.learner
    learner.scale_ = float(np.einsum("nd,nd->n", rows, rows).mean(dtype=np.float64))
    trainer = learner._trainer(rows, hoods, int(learner.random_state))
    # Step sizes continue from the member's own epochs; it learns weight·M, its contribution.
    trainer.epochs = member.epochs + number
    trainer.matrix = member.matrix * np.float32(member.weight)
    trainer.offsets = others
    trainer.epoch()
    return trainer.learned / np.float32(member.weight)
