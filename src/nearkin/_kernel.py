"""Algorithm 1 at matrix-product speed: the compiled code of learning and scoring.

Written naively, a step passes twice over the D×D matrix. Here the same steps are taken in blocks
of rows (`docs/architecture.md` has the derivation): ``Q = X_B M`` once per block, then row by row

    q = Q[b] + Σ_{a<b} w_a G[b,a] V[a]          exactly x_bᵀM as Algorithm 1 would see it,

scores from ``q``, weights from the rule, ``V[b] = Σ_n c_n x_n``, and ``M += X_Bᵀ diag(w) V`` once
at the end. Leaving out the sum gives ordinary mini-batch steps, whose rows are independent.

Arrays and scalars in, arrays changed in place, counters out. Everything here releases the GIL;
threads are laid around it, each with rows of its own, or a team (`_team`) with a row in common.
"""

from functools import partial

import numpy as np
from numba import njit
from numpy.typing import NDArray

from nearkin._blas import multiply_into
from nearkin._intrinsics import LINE, prefetch
from nearkin._rounded import add_rounded, round_query, whole_dot
from nearkin._rules import RULES, apply_rule
from nearkin._team import meet, share
from nearkin._threads import in_threads

Graph = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]
ALL = RULES["all"]
SCORE_ROWS = 4_096
EARLY = 4_000  # bytes that are on their way while a row is read; measured for rows of 128 to 4,000
CACHE = 8 << 20  # bytes; fewer are at hand without asking
FEW = 16  # rows that a step adds up as they are; of more, rounding averages out

# Reassociation lets dot products vectorise; NaN and infinity must stay what they are.
_MATH = {"reassoc", "contract", "nsz", "arcp"}
_jit = njit(cache=True, nogil=True, fastmath=_MATH)


@_jit
def dot(a, b):  # type: ignore[no-untyped-def]
    """Inner product in float32, in whatever order vectorises."""
    total = np.float32(0)
    for d in range(len(a)):
        total += a[d] * b[d]
    return total


@_jit
def add_scaled(out, scale, row):  # type: ignore[no-untyped-def]
    """``out += scale · row``."""
    for d in range(len(out)):
        out[d] += scale * row[d]


@_jit
def ask_for(row):  # type: ignore[no-untyped-def]
    """Have a row on its way to the cache while the ones before it are being read."""
    for byte in range(0, len(row) * row.itemsize, 64):
        prefetch(row, byte)


@_jit
def walk(  # type: ignore[no-untyped-def]
    X, rounded, graph, offsets, rows, XB, Q, G, V, w, scores, steps, draws, lo, hi, alpha, norm2,
    settings, flags, member,
):  # fmt: skip
    """Visit rows ``lo:hi`` of a block, whose `Q` knows all steps before `lo`; fill `V` and `w`.

    The members of a team share the neighbours when scoring and the dimensions when adding up, so
    that every number is computed in the same way whatever their number. What is left, the rule and
    a few scalars, each does for itself.

    Parameters
    ----------
    X : all rows; rounded : the rows to compare with (`_rounded.Rounded`), if not X itself
    graph : (indptr, indices, n_targets)
    offsets : what to add to the score of each edge (the other members of an ensemble), or empty
    rows : the block's row numbers; XB : their vectors; Q = XB·M; G = XB·XBᵀ
    V, w : the directions and weights of the block's steps
    scores : room for the longest neighbourhood, shared by the team
    steps, draws : step size and uniform random number of each row
    alpha, norm2 : M is ``alpha`` times the stored matrix, whose squared Frobenius norm is `norm2`
    settings : (rule, margin, temperature, kept norm)
    flags : (exact, symmetric, normalize)
    member : of the team (`_team.Member`)

    Returns
    -------
    violations, loss, alpha, norm2
    """
    indptr, indices, n_targets = graph
    rule, margin, temperature, kept_norm = settings
    exact, symmetric, normalize = flags
    violations, loss = 0, 0.0
    all_c = np.empty(len(scores), np.float32)
    words = np.zeros(rounded.codes.shape[1], np.int16)
    mine = slice(*_columns(member, X.shape[1], LINE if len(rounded.codes) > 0 else 1))
    sums = np.empty(mine.stop - mine.start, np.float32)
    for b in range(lo, hi):
        i = rows[b]
        near = indices[indptr[i] : indptr[i + 1]]
        c = all_c[: len(near)]
        if exact:
            _catch_up(Q[b], lo, b, XB, G, V, w, symmetric, mine, sums)
            meet(member)
        more = offsets[indptr[i] : indptr[i + 1]]
        _score(X, rounded, near, Q[b], alpha, more, scores, words, member)
        meet(member)
        row_loss = apply_rule(
            rule, scores[: len(near)], n_targets[i], margin, temperature, draws[b], c
        )
        V[b, mine] = 0
        if row_loss > 0:
            violations += 1
            loss += row_loss
            _add_up(X, rounded, near, c, mine, V[b], sums)
        # Written once, by all and alike: a member ahead of us may be reading it.
        w[b] = np.float32(steps[b] / alpha) if row_loss > 0 else np.float32(0)
        if exact and (symmetric or normalize):  # look at directions as a whole
            meet(member)
            if normalize and row_loss > 0:
                norm2 += _norm_growth(w[b], Q[b], XB[b], V[b], symmetric)
                alpha = kept_norm / np.sqrt(norm2)
    return violations, loss, alpha, norm2


@_jit
def _score(X, rounded, near, q, alpha, offsets, scores, words, member):  # type: ignore[no-untyped-def]
    """Similarities of the member's share of a neighbourhood; `words`: room for a rounded query."""
    first, last = share(member, len(near))
    near, scores = near[first:last], scores[first:last]
    if len(rounded.codes) > 0:
        worth = alpha * round_query(q, rounded.scales, words)
        _rounded_products(words, rounded.codes, near, worth, scores)
    else:
        _products(q, X, near, alpha, scores)
    if len(offsets) > 0:
        for n in range(len(near)):
            scores[n] += offsets[first + n]


@_jit
def _products(q, X, near, scale, out):  # type: ignore[no-untyped-def]
    early = _early(X)
    for n in range(-early, len(near)):
        if early > 0 and n + early < len(near):
            ask_for(X[near[n + early]])
        if n >= 0:
            out[n] = scale * dot(q, X[near[n]])


@_jit
def _rounded_products(words, codes, near, scale, out):  # type: ignore[no-untyped-def]
    early = _early(codes)
    for n in range(-early, len(near)):
        if early > 0 and n + early < len(near):
            ask_for(codes[near[n + early]])
        if n >= 0:
            out[n] = scale * np.float32(whole_dot(words, codes[near[n]]))


@_jit
def _early(X):  # type: ignore[no-untyped-def]
    """How many rows to ask for before they are read; none where all are at hand."""
    if X.size * X.itemsize <= CACHE:
        return 0
    return EARLY // max(1, X.shape[1] * X.itemsize) + 1


@_jit
def _columns(member, dims, unit):  # type: ignore[no-untyped-def]
    """The member's share of the dimensions, in whole units."""
    first, last = share(member, -(-dims // unit))
    return first * unit, min(last * unit, dims)


@_jit
def _add_up(X, rounded, near, c, mine, v, sums):  # type: ignore[no-untyped-def]
    """``v += Σ_n c_n x_n`` in the member's dimensions; many rows as they were compared.

    Added up in `sums`, which is the member's own: where two of them write to one cache line again
    and again, each waits for the other.
    """
    if len(rounded.codes) > 0 and np.count_nonzero(c) > FEW:
        add_rounded(v, c, rounded, near, mine.start, mine.stop)
        return
    early = _early(X)
    sums[:] = v[mine]
    for n in range(-early, len(near)):
        if early > 0 and n + early < len(near) and c[n + early] != 0:
            ask_for(X[near[n + early], mine])
        if n >= 0 and c[n] != 0:
            add_scaled(sums, c[n], X[near[n], mine])
    v[mine] = sums


@_jit
def _catch_up(q, lo, b, XB, G, V, w, symmetric, mine, sums):  # type: ignore[no-untyped-def]
    """Bring a part of ``q = x_bᵀM`` up to date with the steps taken since row `lo`."""
    half = np.float32(0.5)
    sums[:] = q[mine]
    for a in range(lo, b):
        if w[a] == 0:
            continue
        if symmetric:
            add_scaled(sums, half * w[a] * G[b, a], V[a, mine])
            add_scaled(sums, half * w[a] * dot(XB[b], V[a]), XB[a, mine])
        else:
            add_scaled(sums, w[a] * G[b, a], V[a, mine])
    q[mine] = sums


@_jit
def _norm_growth(w, q, x, v, symmetric):  # type: ignore[no-untyped-def]
    """Growth of the squared Frobenius norm by a step ``w·x·vᵀ`` (or its symmetric part)."""
    xx, vv, xv = float(dot(x, x)), float(dot(v, v)), float(dot(x, v))
    first = 2.0 * w * float(dot(q, v))
    if symmetric:
        return first + 0.5 * w * w * (xx * vv + xv * xv)
    return first + w * w * xx * vv


@_jit
def _pair_scores(Q, Z, indices, out, lo, hi):  # type: ignore[no-untyped-def]
    for i in range(lo, hi):
        q = Q[i]
        for n in range(indices.shape[1]):
            j = indices[i, n]
            out[i, n] = dot(q, Z[j]) if j >= 0 else -np.inf


@_jit
def _pair_squared_distances(Q, Z, indices, out, lo, hi):  # type: ignore[no-untyped-def]
    for i in range(lo, hi):
        for n in range(indices.shape[1]):
            j = indices[i, n]
            total = np.float32(0)
            if j < 0:
                total = np.float32(np.inf)
            else:
                q, z = Q[i], Z[j]
                for d in range(len(q)):
                    total += (q[d] - z[d]) * (q[d] - z[d])
            out[i, n] = total


@_jit
def _edge_scores(X, graph, Q, first, out, lo, hi):  # type: ignore[no-untyped-def]
    indptr, indices, _ = graph
    for b in range(lo, hi):
        for e in range(indptr[first + b], indptr[first + b + 1]):
            out[e] = dot(Q[b], X[indices[e]])


@_jit
def _objective(graph, scores, margin, lo, hi):  # type: ignore[no-untyped-def]
    indptr, _, n_targets = graph
    total = 0.0
    for i in range(lo, hi):
        row = scores[indptr[i] : indptr[i + 1]]
        n_impostors = len(row) - n_targets[i]
        if n_targets[i] > 0 and n_impostors > 0:
            c = np.empty(len(row), np.float32)
            mean = apply_rule(ALL, row, n_targets[i], margin, 1.0, 0.0, c)
            total += mean * n_targets[i] * n_impostors
    return total


@_jit
def _smallest(D, offsets, columns, out, lo, hi):  # type: ignore[no-untyped-def]
    n, wanted = D.shape[1], out.shape[1]
    rounds = 32
    while rounds > 1 and n // rounds < 2 * wanted:
        rounds //= 2
    lowest = np.empty(n // rounds, np.float32)
    places, values = np.empty(n, np.int64), np.empty(n, np.float32)
    for i in range(lo, hi):
        _lowest_of_lanes(D[i], offsets, lowest)
        # As many lanes as are wanted hold a value up to here, so no wanted value lies above.
        limit = np.float32(np.inf)
        if wanted < len(lowest):
            limit = np.partition(lowest, wanted - 1)[wanted - 1]
        found = _up_to(limit, D[i], offsets, lowest, places, values)
        if found > 4 * wanted:  # many equal ones: do not sort them all
            found = _first_of(wanted, found, places, values)
        order = np.argsort(values[:found])[:wanted]
        columns[i], out[i] = places[order], values[order]


@_jit
def _lowest_of_lanes(row, offsets, lowest):  # type: ignore[no-untyped-def]
    """Fold a row: lane c holds the values c, c + lanes, c + 2·lanes …, but for an odd end."""
    lanes = len(lowest)
    lowest[:] = np.inf
    for start in range(0, len(row) - lanes + 1, lanes):
        part, more = row[start : start + lanes], offsets[start : start + lanes]
        for c in range(lanes):
            value = part[c] + more[c]
            lowest[c] = value if value < lowest[c] else lowest[c]


@_jit
def _up_to(limit, row, offsets, lowest, places, values):  # type: ignore[no-untyped-def]
    """Collect the values up to the limit, looking only into the lanes that have some."""
    lanes, found = len(lowest), 0
    whole = len(row) - len(row) % lanes
    for c in range(lanes):
        if lowest[c] <= limit:
            for j in range(c, whole, lanes):
                places[found], values[found] = j, row[j] + offsets[j]
                found += not (values[found] > limit)  # what overflowed to NaN counts, too
    for j in range(whole, len(row)):
        places[found], values[found] = j, row[j] + offsets[j]
        found += not (values[found] > limit)
    return found


@_jit
def _first_of(wanted, found, places, values):  # type: ignore[no-untyped-def]
    """Move as many values as are wanted to the front, none of them larger than one left out."""
    limit = np.partition(values[:found], wanted - 1)[wanted - 1]
    room = wanted
    for m in range(found):
        room -= values[m] < limit
    kept = 0
    for m in range(found):
        equal = room > 0 and not (values[m] < limit or values[m] > limit)
        if values[m] < limit or equal:
            places[kept], values[kept] = places[m], values[m]
            kept += 1
            room -= equal
    return kept


@_jit
def _nearest_of(D, offsets, out, lo, hi):  # type: ignore[no-untyped-def]
    for i in range(lo, hi):
        best = np.float32(np.inf)
        for j in range(len(offsets)):
            value = D[i, j] + offsets[j]
            if value < best:
                best, out[i] = value, j


def nearest_of(D: NDArray[np.float32], offsets: NDArray[np.float32]) -> NDArray[np.int64]:
    """Column of the smallest value of ``D + offsets`` in each row."""
    out = np.zeros(len(D), np.int64)
    in_threads(partial(_nearest_of, D, offsets, out), len(D))
    return out


def smallest(
    D: NDArray[np.float32], offsets: NDArray[np.float32], wanted: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The `wanted` smallest values of ``D + offsets`` in each row and their columns, ascending.

    Made for few wanted among very many: one pass over a row, where a heap would take several.
    """
    columns, values = np.empty((len(D), wanted), np.int64), np.empty((len(D), wanted), np.float32)
    in_threads(partial(_smallest, D, offsets, columns, values), len(D))
    return values, columns


def edge_scores(
    X: NDArray[np.float32], graph: Graph, M: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Similarity of the two ends of every edge, in the order of the graph's `indices`."""
    out = np.empty(len(graph[1]), np.float32)
    for first in range(0, len(X), SCORE_ROWS):
        Q = np.empty_like(X[first : first + SCORE_ROWS])
        multiply_into(Q, X[first : first + SCORE_ROWS], M)
        score = partial(_edge_scores, X, graph, Q, first, out)
        in_threads(score, len(Q))
    return out


def objective(graph: Graph, scores: NDArray[np.float32], margin: float) -> float:
    """Eq. 6: the hinge loss of all triplets, from the scores of all edges."""
    parts = in_threads(partial(_objective, graph, scores, margin), len(graph[0]) - 1)
    return float(sum(parts))


def pair_scores(
    Q: NDArray[np.float32], Z: NDArray[np.float32], indices: NDArray[np.int32]
) -> NDArray[np.float32]:
    """Inner products of each row of `Q` with the rows of `Z` that `indices` lists for it.

    ``-1`` in `indices` gives ``-inf``. Memory: the result alone.
    """
    out = np.empty(indices.shape, np.float32)
    in_threads(lambda lo, hi: _pair_scores(Q, Z, indices, out, lo, hi), len(indices))
    return out


def pair_squared_distances(
    Q: NDArray[np.float32], Z: NDArray[np.float32], indices: NDArray[np.int32]
) -> NDArray[np.float32]:
    """Squared distances, in the manner of `pair_scores`; ``-1`` gives infinity."""
    out = np.empty(indices.shape, np.float32)
    in_threads(lambda lo, hi: _pair_squared_distances(Q, Z, indices, out, lo, hi), len(indices))
    return out
