"""Algorithm 1 at matrix-product speed: the compiled visits of a block's rows.

Written naively, a step passes twice over the D×D matrix. Here the same steps are taken in blocks
of rows (`docs/architecture.md` has the derivation): ``Q = X_B M`` once per block, then row by row

    q = Q[b] + Σ_{a<b} w_a G[b,a] V[a]          exactly x_bᵀM as Algorithm 1 would see it,

scores from ``q``, weights from the rule, ``V[b] = Σ_n c_n x_n``, and ``M += X_Bᵀ diag(w) V`` once
at the end.

Arrays and scalars in, arrays changed in place, counters out. Everything here releases the GIL;
threads are laid around it, each with rows of its own, or a team (`_team`) with a row in common.
"""

import numpy as np

from nearkin.learning.sampling import apply_rule, lowest_of
from nearkin.learning.scoring import score
from nearkin.native.barrier import meet, share
from nearkin.native.intrinsics import LINE
from nearkin.native.quantize import add_rounded
from nearkin.native.vectors import add_scaled, ask_for, copy, dot, early, jit

# Steps in a block change its norm; where it shrinks a lot, little is left of what is known of it.
MOST_ALPHA = 4.0
FEW = 16  # rows that a step adds up as they are; of more, rounding averages out


@jit
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
    V, w : the directions and weights of the block's steps; Q and V may be wider than X
    scores : room for the longest neighbourhood, shared by the team
    steps, draws : step size and uniform random number of each row
    alpha, norm2 : M is ``alpha`` times the stored matrix, whose squared Frobenius norm is `norm2`
    settings : (rule, its parameter, initial norm)
    flags : (symmetric, normalize)
    member : of the team (`_team.Member`)

    Returns
    -------
    violations, loss, alpha, norm2, and the row before which it stopped: `hi`, unless `alpha` left
    the bounds within which the norm is known well enough
    """
    indptr, indices, n_targets = graph
    rule, parameter, kept_norm = settings
    symmetric, normalize = flags
    violations, loss = 0, 0.0
    all_c = np.empty(len(scores), np.float32)
    words = np.zeros(rounded.codes.shape[1], np.int16)
    mine = slice(*_columns(member, X.shape[1], LINE if len(rounded.codes) > 0 else 1))
    sums = np.empty(mine.stop - mine.start, np.float32)
    b = lo
    while b < hi and (b == lo or 1 / MOST_ALPHA < alpha < MOST_ALPHA):
        i = rows[b]
        near = indices[indptr[i] : indptr[i + 1]]
        c = all_c[: len(near)]
        _catch_up(Q[b], lo, b, XB, G, V, w, symmetric, mine, sums)
        meet(member)
        more = offsets[indptr[i] : indptr[i + 1]]
        lowest = lowest_of(rule, n_targets[i], draws[b])
        q = Q[b, : X.shape[1]]
        score(X, rounded, near, n_targets[i], lowest, q, alpha, more, scores, words, member)
        meet(member)
        row_loss = apply_rule(rule, scores[: len(near)], n_targets[i], parameter, draws[b], c)
        V[b, mine] = 0
        if row_loss > 0:
            violations += 1
            loss += row_loss
            _add_up(X, rounded, near, c, mine, V[b], sums)
        # Written once, by all and alike: a member ahead of us may be reading it.
        w[b] = np.float32(steps[b] / alpha) if row_loss > 0 else np.float32(0)
        if symmetric or normalize:  # look at directions as a whole
            meet(member)
            if normalize and row_loss > 0:
                norm2 += _norm_growth(w[b], Q[b], XB[b], V[b], symmetric)
                alpha = kept_norm / np.sqrt(norm2)
        b += 1
    return violations, loss, alpha, norm2, b


@jit
def _columns(member, dims, unit):  # type: ignore[no-untyped-def]
    """The member's share of the dimensions, in whole units."""
    first, last = share(member, -(-dims // unit))
    return first * unit, min(last * unit, dims)


@jit
def _add_up(X, rounded, near, c, mine, v, sums):  # type: ignore[no-untyped-def]
    """``v += Σ_n c_n x_n`` in the member's dimensions; many rows as they were compared.

    Added up in `sums`, which is the member's own: where two of them write to one cache line again
    and again, each waits for the other.
    """
    if len(rounded.codes) > 0 and np.count_nonzero(c) > FEW:
        add_rounded(v, c, rounded, near, mine.start, mine.stop)
        return
    ahead = early(X)
    copy(sums, v[mine])
    for n in range(-ahead, len(near)):
        if ahead > 0 and n + ahead < len(near) and c[n + ahead] != 0:
            ask_for(X[near[n + ahead], mine])
        if n >= 0 and c[n] != 0:
            add_scaled(sums, c[n], X[near[n], mine])
    copy(v[mine], sums)


@jit
def _catch_up(q, lo, b, XB, G, V, w, symmetric, mine, sums):  # type: ignore[no-untyped-def]
    """Bring a part of ``q = x_bᵀM`` up to date with the steps taken since row `lo`."""
    half = np.float32(0.5)
    copy(sums, q[mine])
    for a in range(lo, b):
        if w[a] == 0:
            continue
        if symmetric:
            add_scaled(sums, half * w[a] * G[b, a], V[a, mine])
            add_scaled(sums, half * w[a] * dot(XB[b], V[a]), XB[a, mine])
        else:
            add_scaled(sums, w[a] * G[b, a], V[a, mine])
    copy(q[mine], sums)


@jit
def _norm_growth(w, q, x, v, symmetric):  # type: ignore[no-untyped-def]
    """Growth of the squared Frobenius norm by a step ``w·x·vᵀ`` (or its symmetric part)."""
    w = np.float64(w)  # whose square may be too large or too small for float32
    xx, vv, xv = np.float64(dot(x, x)), np.float64(dot(v, v)), np.float64(dot(x, v))
    first = 2.0 * w * np.float64(dot(q, v))
    if symmetric:
        return first + 0.5 * w * w * (xx * vv + xv * xv)
    return first + w * w * xx * vv
