"""The step size ρ of a visit (Algorithm 1, line 7): it falls with the root of the epochs so far."""

import numpy as np
from numpy.typing import NDArray


def step_sizes(rho0: float, t: NDArray[np.int64], n: int) -> NDArray[np.float32]:
    """Line 7 of Algorithm 1, ``ρ ← ρ0 / √((t − 1)/N + 1)``, for each of the visits `t` = 1, 2, ….

    Visits are counted over all epochs, those of skipped rows included; `n` is N, the number of
    rows. Sample weights are applied by the trainer.

    Examples
    --------
    >>> step_sizes(0.2, np.array([1, 301]), 100).tolist()  # the first visit, and after three epochs
    [0.20000000298023224, 0.10000000149011612]
    """
    return (rho0 / np.sqrt((t - 1) / n + 1)).astype(np.float32)
