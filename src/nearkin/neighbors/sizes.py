"""Sizes of what searches keep in memory: for the back ends, and for the check before a search."""

from nearkin.native.byte_products import MAX_BYTES
from nearkin.native.jit import target_features

DATABASE_BYTES = 256 << 20  # of the rows that exact search reads at once
PRODUCT_BYTES = 64 << 20  # of their products with queries
CODED_DIMS = 192  # leading directions that candidates are chosen by, in cells
SEARCHED_CELLS_A_ROOT = 1.4  # times the root of the rows: coding a query for a cell must pay
CELL_ROWS = 4_096  # of the sieve: compared with all queries while they are in the cache
CODED_AT_ONCE = 4 * CELL_ROWS
MIN_ROWS, MIN_DIMS = 2_048, 64  # of fewer, products are not what takes the time
SIEVE_BYTES = 1 << 30  # of the coded rows: more are searched in float32


def sieved_rows(k: int) -> int:
    """Rows that the sieve keeps for a query: more than its bound leaves in doubt, for most."""
    return 3 * k + 64


def has_sieve(n: int, dims: int, k: int) -> bool:
    """Whether bytes are faster than float32: products are, and most rows can be left out."""
    shaped = n >= max(MIN_ROWS, 4 * sieved_rows(k)) and MIN_DIMS <= dims <= MAX_BYTES
    return shaped and n * dims <= SIEVE_BYTES and "avx512vnni" in target_features()
