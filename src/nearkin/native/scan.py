"""The best rows of some cells for each query, by products of bytes.

Rows of a cell are coded relative to its origin o, in steps of the cell's own. With z = o + r,

    |q − z|² = |q − o|² + |r|² − 2 (q − o)·r        and        −q·z = −q·o − q·r,

of which the first part is computed in float32 once for a query and a cell, the second is kept with
the row, and the third is a product of bytes. A cell's rows stay in the cache while all queries that
visit it are compared with them. A row enters a query's buffer if its value is up to the query's
limit; when the buffer is full, the best are kept and the worst of them is the new limit. No row
that belongs to the best is ever dropped, so the result depends neither on the order of cells nor on
the other queries; of equal values the first slot wins.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearkin.native.bins import best_bins, extremes, keep_best, keep_exactly
from nearkin.native.byte_products import (
    GROUPS,
    MAX_BYTES,
    PANEL_ROWS,
    TILE_QUERIES,
    append_masked,
    code_bytes,
    compare_tile,
    difference,
    lane_dot,
)
from nearkin.native.jit import compiled
from nearkin.native.threads import in_parallel, in_threads
from nearkin.native.vectors import add_scaled, read_only

Array = NDArray[np.float32]

QUERIES_AT_ONCE = 512  # their buffers fit the cache; enough of them visit a cell
_MAX_QUERY_CODE = 127
# The code of zero, since a row's bytes are unsigned. With VNNI they may have all eight bits.
SEVEN_BITS, EIGHT_BITS = 64, 128
_BUFFERED = 3  # times as many slots as are wanted
_FEWEST_BUFFERED = 128  # to choose from few takes as long
_FEW_CELLS = 64  # large ones: each is a task of its own
_NO_LIMIT = np.finfo(np.float32).max
_ROUNDING = np.float32(4e-7)  # of a limit in float32: twice the sum of two roundings
_LARGEST_BASE = np.float32(1e30)  # of a query; beyond, products with rows may overflow
# Neither fused nor reassociated: bits do not depend on the processor.
_jit = compiled(fastmath=False, error_model="numpy")


class CodedCells(NamedTuple):
    """Rows in cells, as bytes; slots of a cell follow each other, in whole panels.

    Attributes
    ----------
    panels : see ``byte_products``
    offsets : what is added to a row's product; infinity in a slot without a row
    first : the first panel of each cell, and the number of all
    steps : size of a row's code, of each cell
    centroids : origins of the cells, padded with zeros to whole groups of `PANEL_ROWS` numbers
    """

    panels: NDArray[np.uint8]
    offsets: Array
    first: NDArray[np.int64]
    steps: Array
    centroids: Array


def code_cells(
    rows: Array,
    cell: NDArray[np.int64],
    by_products: bool,
    *,
    zero: int = SEVEN_BITS,
    at_means: bool = True,
) -> tuple[CodedCells, NDArray[np.int32], tuple[float, float]]:
    """Code rows relative to the means of their cells.

    Returns the row of each slot, too, -1 in a slot without one, and the lengths of the longest
    error of a code and of the longest row. Unless `at_means`, all cells have zero as their origin.
    Cells without rows are left out. No entry of the rows should be much larger than 1, since their
    squares must not overflow.
    """
    rows = _padded(rows)
    if not len(cell) == len(rows) > 0 or rows.shape[1] > MAX_BYTES:
        raise ValueError(f"rows and cell have shapes {rows.shape} and {cell.shape}")
    cell = np.unique(cell, return_inverse=True)[1]
    sizes = np.bincount(cell)
    first = np.concatenate([[0], np.cumsum(-(-sizes // PANEL_ROWS))])
    order = np.argsort(cell, kind="stable")
    slots = np.full(first[-1] * PANEL_ROWS, -1, np.int32)
    shift = first[:-1] * PANEL_ROWS - (np.cumsum(sizes) - sizes)
    slots[np.arange(len(rows)) + np.repeat(shift, sizes)] = order
    panels = np.full((first[-1], PANEL_ROWS * rows.shape[1]), zero, np.uint8)
    offsets, steps = np.full(len(slots), np.inf, np.float32), np.zeros(len(sizes), np.float32)
    centroids = np.zeros((len(sizes), rows.shape[1]), np.float32)
    coded = CodedCells(panels, offsets, first, steps, centroids)
    if at_means:
        in_threads(partial(_set_means, read_only(rows), slots, coded), len(sizes))
    each = [(c, c + 1) for c in range(len(sizes))] if len(sizes) < _FEW_CELLS else None
    code = partial(_code, read_only(rows), slots, by_products, zero, coded)
    squares = in_threads(code, len(sizes)) if each is None else in_parallel(code, each)
    error, longest = np.sqrt(np.max(squares, axis=0))
    return coded, slots, (error, longest)


def _padded(rows: Array) -> Array:
    missing = -rows.shape[1] % PANEL_ROWS
    return np.pad(rows, ((0, 0), (0, missing))) if missing else np.ascontiguousarray(rows)


@_jit
def _set_means(rows, slots, coded, lo, hi):  # type: ignore[no-untyped-def]
    for cell in range(lo, hi):
        origin, count = coded.centroids[cell], 0
        for slot in range(PANEL_ROWS * coded.first[cell], PANEL_ROWS * coded.first[cell + 1]):
            if slots[slot] >= 0:
                add_scaled(origin, np.float32(1), rows[slots[slot]])
                count += 1
        for d in range(len(origin)):
            origin[d] /= count


@_jit
def _code(rows, slots, by_products, zero, coded, lo, hi):  # type: ignore[no-untyped-def]
    """Code the rows of some cells; return the squares of the longest error and the longest row."""
    rests, errors = np.empty(rows.shape[1], np.float32), np.empty(rows.shape[1], np.float32)
    longest_error, longest = np.float32(0), np.float32(0)
    for cell in range(lo, hi):
        origin, largest = coded.centroids[cell], np.float32(0)
        begin, end = PANEL_ROWS * coded.first[cell], PANEL_ROWS * coded.first[cell + 1]
        for slot in range(begin, end):
            if slots[slot] >= 0:
                row = rows[slots[slot]]
                for d in range(len(row)):
                    largest = max(largest, abs(row[d] - origin[d]))
        step = largest / np.float32(zero - 1)
        coded.steps[cell] = step
        for slot in range(begin, end):
            if slots[slot] >= 0:
                row, panel = rows[slots[slot]], coded.panels[slot // PANEL_ROWS]
                for d in range(len(row)):
                    rests[d] = row[d] - origin[d]
                    code = np.rint(rests[d] / step) if step > 0 else np.float32(0)
                    at = 4 * PANEL_ROWS * (d // 4) + 4 * (slot % PANEL_ROWS) + d % 4
                    panel[at] = np.uint8(zero + np.int64(code))
                    errors[d] = rests[d] - step * code
                square = lane_dot(rests, rests)
                coded.offsets[slot] = np.float32(0) if by_products else square
                longest = max(longest, square)
                longest_error = max(longest_error, lane_dot(errors, errors))
    return longest_error, longest


def decode_rows(
    coded: CodedCells, slots: NDArray[np.integer], dims: int, *, zero: int = SEVEN_BITS
) -> Array:
    """The first `dims` numbers of the rows in some slots, as far as their codes tell."""
    if not 0 <= dims <= coded.centroids.shape[1]:
        raise ValueError(f"dims={dims}, of {coded.centroids.shape[1]}")
    if len(slots) and not 0 <= slots.min() <= slots.max() < len(coded.offsets):
        raise ValueError(f"slots holds {slots.min()} to {slots.max()}")
    cell = np.searchsorted(coded.first, slots // PANEL_ROWS, side="right") - 1
    rows = np.empty((len(slots), dims), np.float32)
    frozen = CodedCells(*(read_only(array) for array in coded))  # type: ignore[arg-type]
    in_threads(partial(_decode, frozen, slots, cell, zero, rows), len(slots))
    return rows


@_jit
def _decode(coded, slots, cell, zero, rows, lo, hi):  # type: ignore[no-untyped-def]
    for i in range(lo, hi):
        panel, origin = coded.panels[slots[i] // PANEL_ROWS], coded.centroids[cell[i]]
        step, place = coded.steps[cell[i]], 4 * (slots[i] % PANEL_ROWS)
        for d in range(rows.shape[1]):
            code = panel[4 * PANEL_ROWS * (d // 4) + place + d % 4]
            rows[i, d] = origin[d] + step * np.float32(np.int32(code) - zero)


def check_coded(coded: CodedCells, dims: int) -> None:
    """Refuse arrays, perhaps of a file, that `code_cells` cannot have made of rows of `dims`."""
    width, n_panels = dims + -dims % PANEL_ROWS, len(coded.panels)
    n_cells, slots = len(coded.steps), PANEL_ROWS * n_panels
    expected = {
        "panels": ((n_panels, PANEL_ROWS * width), "u1"),
        "offsets": ((slots,), "f4"),
        "first": ((n_cells + 1,), "i8"),
        "steps": ((n_cells,), "f4"),
        "centroids": ((n_cells, width), "f4"),
    }
    for name, (shape, kind) in expected.items():
        array = getattr(coded, name)
        if array.shape != shape or array.dtype != kind or not array.flags.c_contiguous:
            raise ValueError(f"{name} has shape {array.shape} and type {array.dtype}")
    if width > MAX_BYTES or coded.first[0] != 0 or coded.first[-1] != n_panels:
        raise ValueError(f"first and panels are not of the same {n_panels} panels")
    if n_cells == 0 or (np.diff(coded.first) < 1).any():
        raise ValueError("first does not ascend")
    # Rows are scaled so that no number exceeds 1: sums of such values stay finite.
    rows = coded.offsets[coded.offsets != np.inf]
    for name, values, most in (
        ("offsets", rows, 4 * width), ("steps", coded.steps, 1), ("centroids", coded.centroids, 1),
    ):  # fmt: skip
        if not (np.abs(values) <= np.float32(1.01 * most)).all():
            raise ValueError(f"{name} holds numbers beyond {most}")


def best_slots(
    coded: CodedCells,
    queries: Array,
    probes: NDArray[np.int32],
    wanted: int,
    by_products: bool,
    *,
    zero: int = SEVEN_BITS,
) -> tuple[Array, NDArray[np.int32]]:
    """The `wanted` best slots of the cells that each query visits, unordered, and their values.

    Values are squared distances, or dot products with the sign changed. A query's row of `probes`
    lists its cells, each once. Places that stay empty hold infinity and -1.
    """
    n, queries = len(queries), _padded(queries)
    if len(probes) != n or queries.shape[1] != coded.centroids.shape[1] or wanted < 1:
        raise ValueError(f"{n} queries, probes of shape {probes.shape}, wanted={wanted}")
    if probes.size and not 0 <= probes.min() <= probes.max() < len(coded.steps):
        raise ValueError(f"probes holds {probes.min()} to {probes.max()}")
    values, slots = np.empty((n, wanted), np.float32), np.empty((n, wanted), np.int32)
    asked = read_only(queries), read_only(np.ascontiguousarray(probes, np.int32))
    frozen = CodedCells(*(read_only(array) for array in coded))  # type: ignore[arg-type]
    scan = partial(_scan, frozen, *asked, by_products, zero, values, slots)
    in_parallel(scan, [(lo, min(lo + QUERIES_AT_ONCE, n)) for lo in range(0, n, QUERIES_AT_ONCE)])
    return values, slots


@_jit
def _scan(coded, queries, probes, by_products, zero, out_values, out_slots, lo, hi):  # type: ignore[no-untyped-def]
    """Fill the lists of the queries ``lo:hi``."""
    panels, offsets, first, steps, centroids = coded  # counted as references once, not every time
    wanted, depth = out_values.shape[1], panels.shape[1] // (4 * PANEL_ROWS)
    visitors, starts, order = _by_cell(probes, lo, hi, len(steps))
    # Whole vectors are written.
    capacity = PANEL_ROWS * (max(_BUFFERED * wanted, _FEWEST_BUFFERED) // PANEL_ROWS + 3)
    values = np.empty((hi - lo, capacity), np.float32)
    slots = np.empty((hi - lo, capacity), np.int32)
    found, limits = np.zeros(hi - lo, np.int64), np.full(hi - lo, _NO_LIMIT, np.float32)
    scratch, keys = np.empty(2, np.int32), np.empty(capacity, np.uint64)
    codes = np.zeros((-(-depth // GROUPS), TILE_QUERIES, GROUPS), np.int32)
    own, terms = np.empty(4 * depth, np.int8), np.empty(4 * depth, np.float32)
    words = own.view(np.int32)
    nowhere = np.zeros(4 * depth, np.float32)
    start = np.zeros(TILE_QUERIES, np.int32)
    units, bases = np.zeros(TILE_QUERIES, np.float32), np.zeros(TILE_QUERIES, np.float32)
    most = np.empty(TILE_QUERIES, np.float32)
    tile = np.empty((TILE_QUERIES, PANEL_ROWS), np.float32)
    masks = np.empty(TILE_QUERIES, np.uint16)
    for cell in order:
        centroid = centroids[cell]
        origin = nowhere if by_products else centroid
        unit = steps[cell] * np.float32(1 if by_products else 2)
        for s in range(starts[cell], starts[cell + 1], TILE_QUERIES):
            members = visitors[s : min(s + TILE_QUERIES, starts[cell + 1])]
            most[:] = -np.inf  # for the places without a query
            for m in range(len(members)):
                i = lo + members[m]
                step, start[m], bases[m] = _encode(queries[i], origin, zero, terms, own)
                if by_products:
                    bases[m] = -lane_dot(queries[i], centroid)
                for part in range(len(codes)):
                    some = words[GROUPS * part : GROUPS * (part + 1)]
                    for group in range(len(some)):
                        codes[part, m, group] = some[group]
                units[m] = step * unit
                most[m] = _relative(limits[members[m]], bases[m])
            for panel in range(first[cell], first[cell + 1]):
                compare_tile(
                    panels, panel, codes, depth, len(members), start, units, most, offsets, tile,
                    masks,
                )  # fmt: skip
                for m in range(len(members)):
                    if masks[m] == 0:
                        continue
                    i = members[m]
                    found[i] += append_masked(
                        tile, m, masks[m], bases[m], panel * PANEL_ROWS, values, slots,
                        capacity * i + found[i],
                    )  # fmt: skip
                    if found[i] > capacity - PANEL_ROWS:
                        bins = best_bins(wanted, found[i], values[i], scratch)
                        found[i] = keep_best(found[i], values[i], slots[i], bins)
                        if found[i] > wanted + wanted // 2:  # many nearly equal values
                            keep_exactly(wanted, found[i], values[i], slots[i], bins, keys)
                            found[i] = wanted
                        _, limits[i] = extremes(values[i], found[i], scratch)
                        most[m] = _relative(limits[i], bases[m])
    for i in range(hi - lo):
        if found[i] > wanted:
            bins = best_bins(wanted, found[i], values[i], scratch)
            found[i] = keep_best(found[i], values[i], slots[i], bins)
            keep_exactly(wanted, found[i], values[i], slots[i], bins, keys)
        kept = min(found[i], wanted)
        for n in range(kept):
            out_values[lo + i, n], out_slots[lo + i, n] = values[i, n], slots[i, n]
        for n in range(kept, wanted):
            out_values[lo + i, n], out_slots[lo + i, n] = np.inf, -1


@_jit
def _by_cell(probes, lo, hi, n_cells):  # type: ignore[no-untyped-def]
    """Queries by the cells they visit, where each cell starts, and the cells, nearest first."""
    starts, weights = np.zeros(n_cells + 1, np.int64), np.zeros(n_cells, np.int64)
    for i in range(lo, hi):
        for rank in range(probes.shape[1]):
            starts[probes[i, rank] + 1] += 1
            weights[probes[i, rank]] -= probes.shape[1] - rank
    for cell in range(n_cells):
        starts[cell + 1] += starts[cell]
    visitors, place = np.empty(starts[-1], np.int64), starts[:-1].copy()
    for i in range(lo, hi):
        for rank in range(probes.shape[1]):
            cell = probes[i, rank]
            visitors[place[cell]] = i - lo
            place[cell] += 1
    return visitors, starts, np.argsort(weights)


@_jit
def _encode(query, origin, zero, terms, codes):  # type: ignore[no-untyped-def]
    """Code a query, less an origin, as bytes; return the step, the start of its sums, its base.

    No call stands under a branch: numba would count references to all arrays at every call, which
    took longer than the coding.
    """
    square, largest = difference(query, origin, terms)
    step = largest / np.float32(_MAX_QUERY_CODE)
    inverse = np.float32(1) / step if step > 0 else np.float32(0)
    total = code_bytes(terms, inverse, codes)
    return step, np.int32(-zero * total), square


@_jit
def _relative(limit, base):  # type: ignore[no-untyped-def]
    """A query's limit for the values of one cell, before its base is added."""
    if not abs(base) < _LARGEST_BASE:
        return np.float32(-np.inf)
    return limit - base + _ROUNDING * (abs(limit) + abs(base)) if limit < _NO_LIMIT else limit
