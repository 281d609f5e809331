"""Sampling rules: from the scores of one neighbourhood to weights on its members.

A rule sees ``scores`` (targets first, then impostors), fills ``c`` and returns the row's loss;
the step is then ``M += ρ · x_i (Σ_n c_n x_n)ᵀ``. A loss of zero means that nothing is violated
and no step is taken. To add a rule, write its function and give it a line in `RULES` and in
`apply_rule`.
"""

import math

import numpy as np
from numba import njit

# Compiled code switches on the number: functions as arguments would defeat numba's cache.
RULES = {"hardest": 0, "uniform": 1, "random_target": 2, "all": 3, "softmax": 4}
RANDOM_RULES = ("uniform", "random_target")


@njit(cache=True, nogil=True)
def apply_rule(rule, scores, n_targets, margin, temperature, u, c):  # type: ignore[no-untyped-def]
    """Fill the weights `c` for one neighbourhood and return its loss.

    `u` is the row's uniform random number, drawn before the work is shared out, so that the
    result does not depend on who does it.
    """
    c[:] = 0
    if rule == 0:
        return _pair(scores, np.argmin(scores[:n_targets]), _hardest(scores, n_targets), margin, c)
    if rule == 1:
        return _uniform(scores, n_targets, margin, u, c)
    if rule == 2:
        return _pair(scores, int(u * n_targets), _hardest(scores, n_targets), margin, c)
    if rule == 3:
        return _all(scores, n_targets, margin, c)
    return _softmax(scores, n_targets, temperature, c)


@njit(cache=True, nogil=True)
def _hardest(scores, n_targets):  # type: ignore[no-untyped-def]
    """Place of the most similar impostor (Eq. 7)."""
    return n_targets + np.argmax(scores[n_targets:])


@njit(cache=True, nogil=True)
def _pair(scores, target, impostor, margin, c):  # type: ignore[no-untyped-def]
    """One triplet: +1 on the target, −1 on the impostor, if they violate the margin."""
    loss = margin - scores[target] + scores[impostor]
    if loss > 0:
        c[target], c[impostor] = 1, -1
    return max(loss, 0.0)


@njit(cache=True, nogil=True)
def _uniform(scores, n_targets, margin, u, c):  # type: ignore[no-untyped-def]
    """A violating pair drawn at random: the ⌊u·count⌋-th, by target, then by similarity."""
    order = n_targets + np.argsort(-scores[n_targets:])
    falling = -scores[order]
    total = 0
    for j in range(n_targets):
        total += np.searchsorted(falling, margin - scores[j])
    place = int(u * total)
    for j in range(n_targets):
        count = np.searchsorted(falling, margin - scores[j])
        if place < count:
            return _pair(scores, j, order[place], margin, c)
        place -= count
    return 0.0


@njit(cache=True, nogil=True)
def _all(scores, n_targets, margin, c):  # type: ignore[no-untyped-def]
    """The full subgradient of Eq. 6 for this row, divided by its number of pairs."""
    targets = np.sort(scores[:n_targets])
    falling = np.sort(-scores[n_targets:])
    pairs = np.float32(n_targets * len(falling))
    loss = 0.0
    for j in range(n_targets):  # impostors with s_l > s_j − b
        count = np.searchsorted(falling, margin - scores[j])
        c[j] = np.float32(count) / pairs
        loss += count * (margin - scores[j])
    for m in range(n_targets, len(scores)):  # targets with s_j < s_l + b
        count = np.searchsorted(targets, scores[m] + margin)
        c[m] = -np.float32(count) / pairs
        loss += count * scores[m]
    return max(loss / pairs, 0.0)


@njit(cache=True, nogil=True)
def _softmax(scores, n_targets, temperature, c):  # type: ignore[no-untyped-def]
    """NCA's idea inside the neighbourhood: the gradient of −T·log Σ_targets p(n)."""
    top_target, top = np.max(scores[:n_targets]), np.max(scores)
    among_targets = among_all = 0.0
    for m in range(len(scores)):
        c[m] = math.exp((scores[m] - top) / temperature)
        among_all += c[m]
    for m in range(n_targets):
        among_targets += math.exp((scores[m] - top_target) / temperature)
    for m in range(len(scores)):
        weight = -c[m] / among_all
        if m < n_targets:
            weight += math.exp((scores[m] - top_target) / temperature) / among_targets
        c[m] = weight
    loss = (top - top_target) / temperature + math.log(among_all) - math.log(among_targets)
    return max(temperature * loss, 0.0)
