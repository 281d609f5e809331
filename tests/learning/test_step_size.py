import math

import numpy as np
import pytest

from nearkin.learning.step_size import step_sizes


def naive(rho0, t, n):
    """Line 7 of Algorithm 1, one visit at a time."""
    return [rho0 / math.sqrt((visit - 1) / n + 1) for visit in t]


@pytest.mark.parametrize(("rho0", "n"), [(0.2, 7), (50.0, 1), (1e-6, 100_000)])
def test_step_sizes_are_line_7_of_algorithm_1(rho0, n):
    t = np.arange(1, 4 * min(n, 50) + 1)
    steps = step_sizes(rho0, t, n)
    assert steps.dtype == np.float32
    np.testing.assert_allclose(steps, naive(rho0, t, n), rtol=1e-7)
