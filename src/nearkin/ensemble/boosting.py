"""Members learned one after the other, each on what the ensemble so far gets wrong.

A pair's score is the sum over all members: those before as they were learned, those after at their
start. What a sampling rule weighs a row's neighbours by, and whether it takes a step at all, so
follows from the errors that are left: gradient boosting, with Algorithm 1 as the weak learner.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nearkin.ensemble.coupling import Units, own_scores
from nearkin.ensemble.members import Members, learn_member
from nearkin.native.blas import project_rows, serial_blas
from nearkin.neighborhoods import Neighborhoods

if TYPE_CHECKING:
    from nearkin.ensemble.projections import Projection

Array = NDArray[np.float32]


def boost(
    members: Members,
    rows: Array,
    hoods: Neighborhoods,
    projections: "list[Projection]",
    learners: list[Any],
    units: Units,
    scores: Array,
) -> None:
    """Learn the members that are missing; `scores` are the ensemble's at its start, overwritten."""
    for n, (P, learner) in enumerate(zip(projections, learners)):
        with serial_blas():
            matrix = P.matrix()
            own = project_rows(rows, matrix)
        found = members.read(n)
        if found is None:
            members.write_scores(scores / np.float32(units.alike(n)))
            members.write_rows(n, rows, matrix)
            learn_member(members, n, learner)
            found = members.read(n)
        if found is not None:
            start = np.eye(len(matrix), dtype=np.float32)
            if members.overlap:
                start *= members.overlap.shares(n)
            scores -= own_scores(own, hoods, start)
            scores += own_scores(own, hoods, found[0])
