"""Values of one row and listed rows, against numpy's and beside each other."""

import numpy as np
import pytest

from nearkin.native.listed_values import fill_fetched, fill_values


@pytest.mark.parametrize("width", [1, 7, 31, 32, 64, 75])
@pytest.mark.parametrize("products", [True, False])
def test_bits_do_not_depend_on_the_company(width, products):
    rng = np.random.default_rng(width)
    table = rng.normal(size=(20, width)).astype(np.float32)
    row, numbers = rng.normal(size=width).astype(np.float32), np.arange(11, dtype=np.int32)
    found, fetched, alone = (np.empty(11, np.float32) for _ in range(3))
    fill_values(products, table, numbers, row, found)
    fill_fetched(products, table, numbers, row, fetched)
    for n in range(11):
        fill_values(products, table, numbers[n : n + 1], row, alone[n : n + 1])
    expected = table @ row if products else np.square(table - row).sum(axis=1)
    np.testing.assert_allclose(found, expected[:11], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(found, alone)
    np.testing.assert_array_equal(found, fetched)


def test_infinity_and_nan_are_kept():
    table = np.array([[1, np.inf, 0], [np.nan, 0, 0]], np.float32)
    found, row = np.empty(2, np.float32), np.ones(3, np.float32)
    fill_values(False, table, np.arange(2, dtype=np.int32), row, found)
    assert found[0] == np.inf
    assert np.isnan(found[1])
