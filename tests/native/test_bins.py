"""Selection by bins, against a stable sort."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from nearkin.native.bins import smallest_columns


@given(
    st.integers(1, 400), st.integers(1, 400), st.booleans(), st.booleans(), st.integers(0, 2**31)
)
@settings(deadline=None, max_examples=80)  # the first call compiles
def test_smallest_columns_are_a_sort_cut_short(n, k, ties, infinite, seed):
    rng, k = np.random.default_rng(seed), min(k, n)
    D, offsets = rng.normal(size=(9, n)).astype(np.float32), rng.normal(size=n).astype(np.float32)
    if ties:
        D, offsets = np.round(D), np.round(offsets)
    if infinite:
        D[rng.random(D.shape) < 0.1] = np.inf
        D[rng.random(D.shape) < 0.1] = np.nan
    expected = np.argsort(D + offsets + 0, axis=1, kind="stable")[:, :k]  # no negative zeros
    np.testing.assert_array_equal(smallest_columns(D, offsets + 0, k), expected)
