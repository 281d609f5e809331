import numpy as np
import pytest

from nearkin.native.mixture_losses import FACTORS, mean_losses
from nearkin.native.threads import limited


@pytest.mark.parametrize("n", [1, FACTORS - 1, FACTORS, 5 * FACTORS + 3])
@pytest.mark.parametrize("classes", [2, 10**6])
def test_mean_losses_by_hand(n, classes):
    rng = np.random.default_rng(n)
    p = (rng.random((40, n)) ** 9).astype(np.float32)
    p[3] = 0
    p[4] = 1
    smoothing = 0.001, 0.1
    expected = [
        -np.log((1 - s) * p.astype(np.float64) + s / classes).mean(axis=1) for s in smoothing
    ]
    found = mean_losses(p, smoothing, classes)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_the_same_bits_on_any_number_of_threads():
    p = np.random.default_rng(0).random((700, 333), np.float32)
    found = []
    for threads in (1, 2):
        with limited(threads):
            found.append(mean_losses(p, (0.01, 0.03), 7))
    np.testing.assert_array_equal(*found)
