"""The smallest of each row, against a sort."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from nearkin.native.topk import smallest_pairs


@given(st.integers(1, 60), st.integers(1, 60), st.booleans(), st.integers(0, 2**31))
@settings(deadline=None, max_examples=60)
def test_smallest_pairs_are_a_sort_cut_short(n, k, ties, seed):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(9, n)).astype(np.float32)
    values = np.round(values) if ties else values
    values[rng.random(values.shape) < 0.1] = np.inf
    numbers = rng.permuted(np.tile(np.arange(-1, n - 1, dtype=np.int32), (9, 1)), axis=1)
    k = min(k, n)
    order = np.lexsort((numbers.view(np.uint32), values + 0), axis=1)[:, :k]
    best, chosen = smallest_pairs(values + 0, numbers, k)  # no negative zeros
    np.testing.assert_array_equal(best, np.take_along_axis(values, order, axis=1))
    np.testing.assert_array_equal(chosen, np.take_along_axis(numbers, order, axis=1))
