"""The block step: Algorithm 1 for a block of rows, between two matrix products.

Written naively, a step passes twice over the D×D matrix. Here the same steps are taken in blocks
of rows (`docs/architecture.md` has the derivation): ``Q = X_B M`` once per block, then row by row

    q = Q[b] + Σ_{a<b} w_a G[b,a] V[a]          exactly x_bᵀM as Algorithm 1 would see it,

scores from ``q``, weights from the rule, ``V[b] = Σ_n c_n x_n``, and ``M += X_Bᵀ diag(w) V`` once
at the end. The rule, with its margin b, is in `nearkin.learning.sampling`, the step size ρ of a row
in `nearkin.learning.step_size`.
"""

import numpy as np

from nearkin.learning.sampling import apply_rule, required_target_range
from nearkin.learning.scoring import score
from nearkin.native.barrier import barrier_wait, thread_range
from nearkin.native.intrinsics import CACHE_LINE
from nearkin.native.quantize import add_quantized
from nearkin.native.vectors import add_scaled, copy, dot, jit, prefetch_distance, prefetch_row

# Steps of a block change the norm of M; if it shrinks a lot, rounding errors dominate its estimate.
MAX_ALPHA = 4.0
MAX_EXACT_ROWS = 16  # in a step's sum; for more rows, quantisation errors average out


@jit
def block_step(  # type: ignore[no-untyped-def]
    X, quantized, graph, offsets, rows, XB, Q, G, V, w, scores, steps, draws, lo, hi, alpha, norm2,
    settings, flags, thread,
):  # fmt: skip
    """Visit rows ``lo:hi`` of a block, whose `Q` includes all steps before `lo`; fill `V` and `w`.

    Threads of a team split the neighbours when scoring and the columns when summing, so that every
    number is computed in the same way for any number of threads. The rest, the rule and a few
    scalars, each thread computes for itself.

    Parameters
    ----------
    X : all rows; quantized : their int8 codes (`QuantizedRows`), or empty
    graph : (indptr, indices, n_targets)
    offsets : added to the score of each edge (the other members of an ensemble), or empty
    rows : the block's row numbers; XB : their vectors; Q = XB·M; G = XB·XBᵀ
    V, w : directions and weights of the block's steps; Q and V may have more columns than X
    scores : buffer for the longest neighbourhood, shared by the team
    steps, draws : step size and uniform random number of each row
    alpha, norm2 : M is ``alpha`` times the stored matrix, whose squared Frobenius norm is `norm2`
    settings : (rule, its parameter, initial norm)
    flags : (symmetric, normalize)
    thread : of the team (`TeamThread`)

    Returns
    -------
    violations, loss, alpha, norm2, and the row before which it stopped: `hi`, unless `alpha` left
    the bounds within which the norm is known well enough
    """
    indptr, indices, n_targets = graph
    rule, parameter, initial_norm = settings
    symmetric, normalize = flags
    violations, loss = 0, 0.0
    weights = np.empty(len(scores), np.float32)
    query_codes = np.zeros(quantized.codes.shape[1], np.int16)
    columns = slice(
        *_column_range(thread, X.shape[1], CACHE_LINE if len(quantized.codes) > 0 else 1)
    )
    sums = np.empty(columns.stop - columns.start, np.float32)
    b = lo
    while b < hi and (b == lo or 1 / MAX_ALPHA < alpha < MAX_ALPHA):
        i = rows[b]
        near = indices[indptr[i] : indptr[i + 1]]
        c = weights[: len(near)]
        _apply_corrections(Q[b], lo, b, XB, G, V, w, symmetric, columns, sums)
        barrier_wait(thread)
        more = offsets[indptr[i] : indptr[i + 1]]
        required = required_target_range(rule, n_targets[i], draws[b])
        q = Q[b, : X.shape[1]]
        score(
            X, quantized, near, n_targets[i], required, q, alpha, more, scores, query_codes, thread
        )
        barrier_wait(thread)
        row_loss = apply_rule(rule, scores[: len(near)], n_targets[i], parameter, draws[b], c)
        V[b, columns] = 0
        if row_loss > 0:
            violations += 1
            loss += row_loss
            _add_neighbors(X, quantized, near, c, columns, V[b], sums)
        # One store of the same value by all threads: a thread ahead may already be reading it.
        w[b] = np.float32(steps[b] / alpha) if row_loss > 0 else np.float32(0)
        if symmetric or normalize:  # these read whole directions
            barrier_wait(thread)
            if normalize and row_loss > 0:
                norm2 += _norm_growth(w[b], Q[b], XB[b], V[b], symmetric)
                alpha = initial_norm / np.sqrt(norm2)
        b += 1
    return violations, loss, alpha, norm2, b


@jit
def _column_range(thread, dims, unit):  # type: ignore[no-untyped-def]
    """The thread's part of the columns, in whole units."""
    first, last = thread_range(thread, -(-dims // unit))
    return first * unit, min(last * unit, dims)


@jit
def _add_neighbors(X, quantized, near, c, columns, v, sums):  # type: ignore[no-untyped-def]
    """``v += Σ_n c_n x_n`` in the thread's columns; sums of many rows use their codes.

    Summed in the thread's own buffer `sums`: two threads that keep writing to one cache line of
    `v` would slow each other down (false sharing).
    """
    if len(quantized.codes) > 0 and np.count_nonzero(c) > MAX_EXACT_ROWS:
        add_quantized(v, c, quantized, near, columns.start, columns.stop)
        return
    ahead = prefetch_distance(X)
    copy(sums, v[columns])
    for n in range(-ahead, len(near)):
        if ahead > 0 and n + ahead < len(near) and c[n + ahead] != 0:
            prefetch_row(X[near[n + ahead], columns])
        if n >= 0 and c[n] != 0:
            add_scaled(sums, c[n], X[near[n], columns])
    copy(v[columns], sums)


@jit
def _apply_corrections(q, lo, b, XB, G, V, w, symmetric, columns, sums):  # type: ignore[no-untyped-def]
    """Add the steps taken since row `lo` to the thread's columns of ``q = x_bᵀM``."""
    half = np.float32(0.5)
    copy(sums, q[columns])
    for a in range(lo, b):
        if w[a] == 0:
            continue
        if symmetric:
            add_scaled(sums, half * w[a] * G[b, a], V[a, columns])
            add_scaled(sums, half * w[a] * dot(XB[b], V[a]), XB[a, columns])
        else:
            add_scaled(sums, w[a] * G[b, a], V[a, columns])
    copy(q[columns], sums)


@jit
def _norm_growth(w, q, x, v, symmetric):  # type: ignore[no-untyped-def]
    """Growth of the squared Frobenius norm by a step ``w·x·vᵀ`` (or its symmetric part)."""
    w = np.float64(w)  # its square may overflow or underflow float32
    xx, vv, xv = np.float64(dot(x, x)), np.float64(dot(v, v)), np.float64(dot(x, v))
    first = 2.0 * w * np.float64(dot(q, v))
    if symmetric:
        return first + 0.5 * w * w * (xx * vv + xv * xv)
    return first + w * w * xx * vv
