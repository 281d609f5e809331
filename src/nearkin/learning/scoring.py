"""Similarities of one row to its neighbours: by the rows themselves, or by their bytes first.

Bytes tell how similar two rows are to within a bound (`_rounded.doubt`). A rule that looks at the
least similar target and the most similar impostor alone needs no more: only the few neighbours that
could be either are compared as they are, and what comes out is what it would be without bytes.
"""

import numpy as np

from nearkin.native.barrier import share
from nearkin.native.quantize import doubt, round_query, whole_dot
from nearkin.native.vectors import ask_for, dot, early, jit

_SLACK = 1e-6  # of what is compared, for sums in float32


@jit
def score(X, rounded, near, n_targets, lowest, q, alpha, offsets, scores, words, member):  # type: ignore[no-untyped-def]
    """Fill the member's share of a neighbourhood's `scores`.

    Parameters
    ----------
    X, rounded, offsets, member : see `_walk.walk`
    near : the neighbours, of which the first `n_targets` are targets
    lowest : the targets whose least similar is wanted, and the most similar impostor, and no other
        score; empty: all of them
    q : xᵀM, of which `alpha` is the scale; words : room for its whole numbers
    """
    first, last = share(member, len(near))
    near, scores = near[first:last], scores[first:last]
    offsets = offsets[first:last]
    if len(rounded.codes) == 0:
        _products(q, X, near, alpha, scores)
        _add(scores, offsets)
        return
    worth = round_query(q, rounded.scales, words)
    _rounded_products(words, rounded.codes, near, alpha * worth, scores)
    _add(scores, offsets)
    if lowest[1] > lowest[0]:
        off = alpha * doubt(q, worth, rounded)
        targets = slice(max(lowest[0] - first, 0), max(lowest[1] - first, 0))
        impostors = slice(max(n_targets - first, 0), len(near))
        _keep_highest(-1, X, near[targets], q, alpha, offsets[targets], off, scores[targets])
        _keep_highest(1, X, near[impostors], q, alpha, offsets[impostors], off, scores[impostors])


@jit
def _products(q, X, near, scale, out):  # type: ignore[no-untyped-def]
    ahead = early(X)
    for n in range(-ahead, len(near)):
        if ahead > 0 and n + ahead < len(near):
            ask_for(X[near[n + ahead]])
        if n >= 0:
            out[n] = scale * dot(q, X[near[n]])


@jit
def _rounded_products(words, codes, near, scale, out):  # type: ignore[no-untyped-def]
    ahead = early(codes)
    for n in range(-ahead, len(near)):
        if ahead > 0 and n + ahead < len(near):
            ask_for(codes[near[n + ahead]])
        if n >= 0:
            out[n] = scale * np.float32(whole_dot(words, codes[near[n]]))


@jit
def _add(scores, offsets):  # type: ignore[no-untyped-def]
    for n in range(len(offsets)):
        scores[n] += offsets[n]


@jit
def _keep_highest(sign, X, near, q, alpha, offsets, off, scores):  # type: ignore[no-untyped-def]
    """Make exact what could be the highest of ``sign·scores``, `off` at most; rule out the rest."""
    if len(scores) == 0:
        return
    best = np.argmax(scores) if sign > 0 else np.argmin(scores)
    highest = alpha * dot(q, X[near[best]])
    if len(offsets) > 0:
        highest += offsets[best]
    limit = sign * highest - off - _SLACK * (abs(highest) + off)
    none = np.float32(-sign * np.inf)
    for n in range(len(scores)):
        if sign * scores[n] < limit:  # not so where one of them is no number
            scores[n] = none
    n = _next(scores, none, 0)
    while n < len(scores):
        coming = _next(scores, none, n + 1)
        if coming < len(scores):
            ask_for(X[near[coming]])
        scores[n] = alpha * dot(q, X[near[n]])
        if len(offsets) > 0:
            scores[n] += offsets[n]
        n = coming


@jit
def _next(scores, none, n):  # type: ignore[no-untyped-def]
    """The first place from `n` on that is not ruled out."""
    while n < len(scores) and scores[n] == none:
        n += 1
    return n
