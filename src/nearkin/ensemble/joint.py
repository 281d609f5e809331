"""Joint refinement of an ensemble: coordinate descent over its members (Section 3.1).

Each member in turn takes an epoch of SL-NE steps on the objective of the whole ensemble. What the
others contribute to the score of an edge does not change meanwhile, so it is kept, one number an
edge, and not computed again.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.ensemble.projections import Projection
from nearkin.learning.objective import edge_scores, objective
from nearkin.native.blas import multiply_into, serial_blas
from nearkin.neighborhoods import Neighborhoods

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

    `history` gets one entry an update: round, member, objective before and after, kept. Whoever
    interrupts has the members as the last entry left them.
    """
    with serial_blas():
        total = np.zeros(len(hoods.indices), np.float32)
        for member in ensemble:
            total += member.edges(member.rows(X), hoods)
        for turn in range(rounds):
            for n, member in enumerate(ensemble):
                result = _update(X, hoods, member, total, margin, turn)
                history.append({"round": turn + 1, "member": n} | result)


@dataclass
class JointMember:
    """One member of the ensemble, ready to learn on."""

    projection: Projection
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

    def edges(self, rows: Array, hoods: Neighborhoods) -> Array:
        """What the member adds to the score of every edge."""
        return np.float32(self.weight) * edge_scores(rows, hoods.arrays, self.matrix)


def _update(
    X: Array, hoods: Neighborhoods, member: JointMember, total: Array, margin: float, turn: int
) -> dict[str, float]:
    """One member's turn; `total`, the ensemble's score of every edge, is kept up to date."""
    rows = member.rows(X)
    others = total - member.edges(rows, hoods)
    before = objective(hoods.arrays, total, margin)
    changed = replace(member, matrix=_epoch(rows, hoods, member, others, turn))
    new = others + changed.edges(rows, hoods)
    after = objective(hoods.arrays, new, margin)
    if after < before:
        total[:], member.matrix = new, changed.matrix
    return {"before": before, "after": after, "kept": after < before}


def _epoch(
    rows: Array, hoods: Neighborhoods, member: JointMember, others: Array, turn: int
) -> Array:
    """An epoch of Algorithm 1 in which every score includes what the other members give."""
    learner = member.learner
    learner.scale_ = float(np.einsum("nd,nd->n", rows, rows).mean(dtype=np.float64))
    stepper = learner._trainer(rows, hoods, int(learner.random_state))
    # Steps go on from the epochs that the member has behind it, on what it adds: weight·M.
    stepper.epochs = member.epochs + turn
    stepper.matrix = member.matrix * np.float32(member.weight)
    stepper.offsets = others
    stepper.epoch()
    return stepper.matrix / np.float32(member.weight)
