"""Sampling rules: from the scores of one neighbourhood to weights on its members.

A rule sees ``scores`` (targets first, then impostors), fills ``c`` and returns the row's loss;
the step is then ``M += ρ · x_i (Σ_n c_n x_n)ᵀ``. A loss of zero means that nothing is violated
and no step is taken. To add a rule, write its function and give it a line in `RULES` and in
`apply_rule`.
"""

import math

import numpy as np

from nearkin.native.jit import compiled

# Compiled code switches on the number: functions as arguments would defeat numba's cache.
RULES = {"hardest": 0, "uniform": 1, "random_target": 2, "all": 3, "softmax": 4}
RANDOM_RULES = ("uniform", "random_target")
EXTREME_RULES = ("hardest", "random_target")  # look at no score but one target's, one impostor's
MANY = 1_000_000  # pairs of a neighbourhood that are not looked at one by one

# Reassociation lets counts and sums vectorise; NaN and infinity must stay what they are.
_jit = compiled(fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")


@_jit
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


@_jit
def required_target_range(rule, n_targets, u):  # type: ignore[no-untyped-def]
    """Of which targets an extreme rule looks at the least similar; of others' none."""
    if rule == 0:
        return 0, n_targets
    if rule == 2:
        return int(u * n_targets), int(u * n_targets) + 1
    return 0, 0


@_jit
def _hardest(scores, n_targets):  # type: ignore[no-untyped-def]
    """Place of the most similar impostor (Eq. 7)."""
    return n_targets + np.argmax(scores[n_targets:])


@_jit
def _pair(scores, target, impostor, margin, c):  # type: ignore[no-untyped-def]
    """One triplet: +1 on the target, −1 on the impostor, if they violate the margin."""
    loss = margin - scores[target] + scores[impostor]
    if loss > 0:
        c[target], c[impostor] = 1, -1
    return max(loss, 0.0)


@_jit
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


@_jit
def _all(scores, n_targets, margin, c):  # type: ignore[no-untyped-def]
    """The full subgradient of Eq. 6 for this row, divided by its number of pairs."""
    pairs = n_targets * (len(scores) - n_targets)
    limits = np.full(n_targets + 3, np.inf, np.float32)  # the last three are for nobody
    for j in range(n_targets):
        limits[j] = scores[j] - margin
    if pairs <= MANY:
        _count_pairs(scores[n_targets:], limits, c[:n_targets], c[n_targets:])
    else:
        _count_sorted(scores[n_targets:], limits[:n_targets], c[:n_targets], c[n_targets:])
    loss = 0.0
    for m in range(len(scores)):
        loss -= c[m] * scores[m]
        if m < n_targets:
            loss += c[m] * margin
    c /= np.float32(pairs)
    return max(loss / pairs, 0.0)


@_jit
def _count_pairs(impostors, limits, for_targets, against):  # type: ignore[no-untyped-def]
    """Count, for every target and every impostor, the violating pairs it is in.

    Looks at every pair, which vectorises: for hundreds of neighbours that takes half the time of
    sorting them, whose branches cannot be foreseen.
    """
    for j in range(0, len(for_targets), 4):
        counts = _count_above(impostors, limits[j : j + 4], against)
        for n in range(min(4, len(for_targets) - j)):
            for_targets[j + n] = counts[n]


@_jit
def _count_sorted(impostors, limits, for_targets, against):  # type: ignore[no-untyped-def]
    """The same for very many neighbours."""
    by_limit, by_score = np.argsort(limits), np.argsort(impostors)
    place = 0
    for j in by_limit:
        while place < len(impostors) and impostors[by_score[place]] <= limits[j]:
            place += 1
        for_targets[j] = len(impostors) - place
    place = 0
    for m in by_score:
        while place < len(limits) and limits[by_limit[place]] < impostors[m]:
            place += 1
        against[m] = -place


@_jit
def _count_above(values, limits, below):  # type: ignore[no-untyped-def]
    """How many values are above each of four limits; and take off each value how many it is."""
    a, b, c, d = limits[0], limits[1], limits[2], limits[3]
    none, one = np.float32(0), np.float32(1)
    above_a = above_b = above_c = above_d = none
    for m in range(len(values)):
        in_a = one if values[m] > a else none
        in_b = one if values[m] > b else none
        in_c = one if values[m] > c else none
        in_d = one if values[m] > d else none
        above_a += in_a
        above_b += in_b
        above_c += in_c
        above_d += in_d
        below[m] -= (in_a + in_b) + (in_c + in_d)
    return above_a, above_b, above_c, above_d


@_jit
def _softmax(scores, n_targets, temperature, c):  # type: ignore[no-untyped-def]
    """NCA's idea inside the neighbourhood: the gradient of −T·log Σ_targets p(n)."""
    top_target, top_impostor = np.max(scores[:n_targets]), np.max(scores[n_targets:])
    top = max(top_target, top_impostor)
    targets = _exponentials(scores[:n_targets], top_target, temperature, c[:n_targets])
    impostors = _exponentials(scores[n_targets:], top_impostor, temperature, c[n_targets:])
    share_t = math.exp((top_target - top) / temperature)
    share_i = math.exp((top_impostor - top) / temperature)
    everyone = share_t * targets + share_i * impostors
    of_targets, of_impostors = 1 / targets - share_t / everyone, -share_i / everyone
    for m in range(len(c)):
        c[m] *= of_targets if m < n_targets else of_impostors
    loss = (top - top_target) / temperature + math.log(everyone) - math.log(targets)
    return max(temperature * loss, 0.0)


@_jit
def _exponentials(scores, top, temperature, c):  # type: ignore[no-untyped-def]
    total = 0.0
    for m in range(len(scores)):
        c[m] = math.exp((scores[m] - top) / temperature)
        total += c[m]
    return total
