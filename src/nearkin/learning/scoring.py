"""Scores of one row's neighbours: from the float32 rows, or from int8 codes first.

Quantised scores have an error bound (`quantize.score_error_bound`). A rule that needs only the
least similar target and the most similar impostor therefore computes exact scores only for the few
neighbours that could be one of them, and gets the same result as without quantisation.
"""

import numpy as np

from nearkin.native.barrier import thread_range
from nearkin.native.quantize import quantize_query, quantized_dot, score_error_bound
from nearkin.native.vectors import dot, jit, prefetch_distance, prefetch_row

_SLACK = 1e-6  # relative, for sums in float32


@jit
def score(X, quantized, near, n_targets, required, q, alpha, offsets, scores, codes, thread):  # type: ignore[no-untyped-def]
    """Fill the thread's part of a neighbourhood's `scores`.

    Parameters
    ----------
    X, quantized, offsets, thread : see `step.block_step`
    near : the neighbours, of which the first `n_targets` are targets
    required : range of the targets whose minimum is needed, together with the maximum of the
        impostors; if empty, all scores are needed
    q : xᵀM up to the factor `alpha`
    codes : int16 buffer for the quantised query
    """
    first, last = thread_range(thread, len(near))
    near, scores = near[first:last], scores[first:last]
    offsets = offsets[first:last]
    if len(quantized.codes) == 0:
        _scores(q, X, near, alpha, scores)
        _add(scores, offsets)
        return
    step = quantize_query(q, quantized.scales, codes)
    _quantized_scores(codes, quantized.codes, near, alpha * step, scores)
    _add(scores, offsets)
    if required[1] > required[0]:
        bound = alpha * score_error_bound(dot(q, q), step, quantized)
        targets = slice(max(required[0] - first, 0), max(required[1] - first, 0))
        impostors = slice(max(n_targets - first, 0), len(near))
        _refine_extreme(-1, X, near[targets], q, alpha, offsets[targets], bound, scores[targets])
        _refine_extreme(
            1, X, near[impostors], q, alpha, offsets[impostors], bound, scores[impostors]
        )


@jit
def _scores(q, X, near, scale, out):  # type: ignore[no-untyped-def]
    ahead = prefetch_distance(X)
    for n in range(-ahead, len(near)):
        if ahead > 0 and n + ahead < len(near):
            prefetch_row(X[near[n + ahead]])
        if n >= 0:
            out[n] = scale * dot(q, X[near[n]])


@jit
def _quantized_scores(query_codes, codes, near, scale, out):  # type: ignore[no-untyped-def]
    ahead = prefetch_distance(codes)
    for n in range(-ahead, len(near)):
        if ahead > 0 and n + ahead < len(near):
            prefetch_row(codes[near[n + ahead]])
        if n >= 0:
            out[n] = scale * np.float32(quantized_dot(query_codes, codes[near[n]]))


@jit
def _add(scores, offsets):  # type: ignore[no-untyped-def]
    for n in range(len(offsets)):
        scores[n] += offsets[n]


@jit
def _refine_extreme(sign, X, near, q, alpha, offsets, bound, scores):  # type: ignore[no-untyped-def]
    """Make every score exact that could be the maximum of ``sign·scores``; exclude the others.

    `bound` is the error bound of `scores`. Excluded scores become infinite.
    """
    if len(scores) == 0:
        return
    best = np.argmax(scores) if sign > 0 else np.argmin(scores)
    exact = alpha * dot(q, X[near[best]])
    if len(offsets) > 0:
        exact += offsets[best]
    limit = sign * exact - bound - _SLACK * (abs(exact) + bound)
    excluded = np.float32(-sign * np.inf)
    for n in range(len(scores)):
        if sign * scores[n] < limit:  # false for NaN, which is kept
            scores[n] = excluded
    n = _next_candidate(scores, excluded, 0)
    while n < len(scores):
        coming = _next_candidate(scores, excluded, n + 1)
        if coming < len(scores):
            prefetch_row(X[near[coming]])
        scores[n] = alpha * dot(q, X[near[n]])
        if len(offsets) > 0:
            scores[n] += offsets[n]
        n = coming


@jit
def _next_candidate(scores, excluded, n):  # type: ignore[no-untyped-def]
    """The first position from `n` on that is not excluded."""
    while n < len(scores) and scores[n] == excluded:
        n += 1
    return n
