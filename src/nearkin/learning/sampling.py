"""Sampling rules: which neighbours a step pulls and pushes (Eq. 7 and its alternatives).

A rule sees the ``scores`` of one neighbourhood (targets first, then impostors), fills the weights
``c`` of its members and returns the row's loss; the step is ``M += ρ · x_i (Σ_n c_n x_n)ᵀ``. A loss
of zero means that no constraint is violated and no step is taken.

A rule of your own is a subclass with a static method that numba can compile:

>>> class LeastSimilarTarget(SamplingRule):
...     @staticmethod
...     def weights(scores, n_targets, parameter, u, c):
...         c[np.argmin(scores[:n_targets])] = 1
...         return 1.0
>>> as_rule(LeastSimilarTarget())
LeastSimilarTarget()
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal, Self

import numpy as np
from llvmlite import ir
from numba import carray, cfunc, njit, types
from numba.extending import intrinsic

from nearkin.native.jit import compiled
from nearkin.validation import expect
from nearkin.validation.parameters import ParameterGroup, Table, require

RuleName = Literal["hardest", "uniform", "random_target", "all", "all_and_hardest", "softmax"]

PAPER_MARGIN = 0.02
HARDEST_WEIGHT = 0.05  # beside the mean of all pairs
MAX_PAIRS = 1_000_000  # pairs of a neighbourhood up to which each is looked at; then it is sorted
_CUSTOM = -1

# Reassociation lets counts and sums vectorise; NaN and infinity must stay what they are.
_jit = compiled(fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")


@dataclass(repr=False)
class SamplingRule(ParameterGroup):
    """Base of all rules. A subclass defines `weights`; numba compiles it on first use.

    ``weights(scores, n_targets, parameter, u, c)`` fills `c`, which is zero, and returns the loss.
    `parameter` is the rule's margin or temperature in units of the scores, `u` a uniform random
    number of the row (0 unless `random`).

    Attributes
    ----------
    random : bool
        Whether the rule draws one random number per row.
    extreme : bool
        Whether it looks at one target and the most similar impostor only, so that the other
        scores need not be exact.
    default_step : float
        Step size ρ0 that suits the rule.
    member_steps : float
        How many times as large it is for members of an ensemble that score pairs by all of it.
    """

    code: ClassVar[int] = _CUSTOM
    random: ClassVar[bool] = False
    extreme: ClassVar[bool] = False
    default_step: ClassVar[float] = 0.2
    member_steps: ClassVar[float] = 1.0
    PARAMETERS: ClassVar[Table] = {}

    @staticmethod
    def weights(scores: Any, n_targets: int, parameter: float, u: float, c: Any) -> float:
        """Fill `c` and return the loss."""
        raise NotImplementedError("a sampling rule defines weights(scores, n_targets, …)")

    @property
    def parameter(self) -> float:
        """The number that is in units of the scores: 0 for rules without one."""
        return 0.0

    @property
    def margin(self) -> float:
        """Margin of the objective that goes with the rule; the paper's if it has none."""
        return PAPER_MARGIN

    def scaled(self, factor: float) -> Self:
        """The same rule for scores that are `factor` times as large."""
        return self

    def fingerprint(self) -> str:
        """What tells this rule from others: its name, parameters and, if it is yours, its code."""
        code = self.weights.__code__
        own = code.co_code.hex() + repr(code.co_consts) if self.code == _CUSTOM else ""
        return f"{self!r}{own}"

    def function(self) -> tuple[int, int]:
        """Code and address by which compiled code calls the rule."""
        return self.code, _address(type(self)) if self.code == _CUSTOM else 0


@dataclass(repr=False)
class MarginRule(SamplingRule):
    """Base of the rules with a hinge loss: a target must be more similar by `margin`."""

    margin: float = PAPER_MARGIN

    PARAMETERS: ClassVar[Table] = {"margin": expect.number(0)}

    @property
    def parameter(self) -> float:
        """The margin."""
        return self.margin

    def scaled(self, factor: float) -> Self:
        """The same rule for scores that are `factor` times as large."""
        return type(self)(self.margin * factor)


@dataclass(repr=False)
class Hardest(MarginRule):
    """The paper's rule (Eq. 7): the least similar target and the most similar impostor."""

    code: ClassVar[int] = 0
    extreme: ClassVar[bool] = True


@dataclass(repr=False)
class Uniform(MarginRule):
    """A violating pair drawn at random: the paper's comparison."""

    code: ClassVar[int] = 1
    random: ClassVar[bool] = True


@dataclass(repr=False)
class RandomTarget(MarginRule):
    """A random target and the most similar impostor."""

    code: ClassVar[int] = 2
    random: ClassVar[bool] = True
    extreme: ClassVar[bool] = True


@dataclass(repr=False)
class AllPairs(MarginRule):
    """All violating pairs at once, the subgradient of Eq. 6; wants a larger step, about 2."""

    code: ClassVar[int] = 3
    default_step: ClassVar[float] = 2.0
    member_steps: ClassVar[float] = 2.5


@dataclass(repr=False)
class AllAndHardest(MarginRule):
    """All violating pairs, and once more, with a twentieth of their weight, the hardest of them.

    Where columns outnumber rows it is better than either alone: few pairs violate the margin soon,
    and their mean hardly moves M any more.
    """

    code: ClassVar[int] = 5
    default_step: ClassVar[float] = 2.0
    member_steps: ClassVar[float] = 2.5


@dataclass(repr=False)
class Softmax(SamplingRule):
    """Neighbourhood components analysis inside the neighbourhood; has no margin."""

    code: ClassVar[int] = 4
    default_step: ClassVar[float] = 0.5
    temperature: float = 0.1

    PARAMETERS: ClassVar[Table] = {"temperature": expect.number(above=0)}

    @property
    def parameter(self) -> float:
        """The temperature."""
        return self.temperature

    def scaled(self, factor: float) -> Self:
        """The same rule for scores that are `factor` times as large."""
        return type(self)(self.temperature * factor)


RULES: dict[str, type[SamplingRule]] = {
    "hardest": Hardest,
    "uniform": Uniform,
    "random_target": RandomTarget,
    "all": AllPairs,
    "all_and_hardest": AllAndHardest,
    "softmax": Softmax,
}


def rule_problem(sampling: Any) -> str | None:
    """What is wrong with a sampling rule, or None: an `Expectation`."""
    if isinstance(sampling, SamplingRule):
        abstract = sampling.code == _CUSTOM and type(sampling).weights is SamplingRule.weights
        return "a subclass of SamplingRule that defines weights" if abstract else None
    named = expect.choice(*RULES)(sampling)
    return named and f"{named}, or a SamplingRule such as Softmax(temperature=0.05)"


def as_rule(sampling: Any) -> SamplingRule:
    """The rule that a name or an object stands for."""
    require("sampling", sampling, rule_problem)
    return RULES[sampling]() if isinstance(sampling, str) else sampling


@cache
def _callback(rule: type[SamplingRule]) -> Any:
    """The rule's `weights` as a C function; kept, since its address must stay valid."""
    body = njit(nogil=True, error_model="numpy")(rule.weights)

    @cfunc("f8(CPointer(f4), i8, i8, f8, f8, CPointer(f4))", nopython=True)
    def call(scores, n, n_targets, parameter, u, c):  # type: ignore[no-untyped-def]
        return body(carray(scores, n), n_targets, parameter, u, carray(c, n))

    return call


def _address(rule: type[SamplingRule]) -> int:
    return int(_callback(rule).address)  # type: ignore[arg-type]


@intrinsic
def _call_custom(
    _: Any, address: Any, scores: Any, n_targets: Any, parameter: Any, u: Any, c: Any
) -> Any:
    """Call the C function at `address`; its rule was compiled apart from the kernel."""

    def call(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer, long, double = ir.FloatType().as_pointer(), ir.IntType(64), ir.DoubleType()
        kind = ir.FunctionType(double, [pointer, long, long, double, double, pointer])
        function = builder.inttoptr(arguments[0], kind.as_pointer())
        read, write = (
            context.make_array(array)(context, builder, argument)
            for array, argument in ((scores, arguments[1]), (c, arguments[5]))
        )
        size = builder.extract_value(read.shape, 0)
        return builder.call(function, [read.data, size, *arguments[2:5], write.data])

    kinds = types.int64, scores, types.int64, types.float64, types.float64, c
    return types.float64(*kinds), call


@_jit
def apply_rule(rule, scores, n_targets, parameter, u, c):  # type: ignore[no-untyped-def]
    """Fill the weights `c` for one neighbourhood and return its loss.

    `rule` is what `SamplingRule.function` gives. `u` is the row's uniform random number, drawn
    before the work is distributed, so that the result does not depend on the number of threads.
    """
    code, address = rule
    c[:] = 0
    if code == 0:
        return _pair(
            scores, np.argmin(scores[:n_targets]), _hardest(scores, n_targets), parameter, c
        )
    if code == 1:
        return _uniform(scores, n_targets, parameter, u, c)
    if code == 2:
        return _pair(scores, int(u * n_targets), _hardest(scores, n_targets), parameter, c)
    if code == 3:
        return _all(scores, n_targets, parameter, c)
    if code == 4:
        return _softmax(scores, n_targets, parameter, c)
    if code == 5:
        return _all_and_hardest(scores, n_targets, parameter, c)
    return _call_custom(address, scores, n_targets, parameter, u, c)


@_jit
def required_target_range(rule, n_targets, u):  # type: ignore[no-untyped-def]
    """Targets among which an extreme rule needs the least similar; empty for other rules."""
    code, _ = rule
    if code == 0:
        return 0, n_targets
    if code == 2:
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
    if pairs <= MAX_PAIRS:
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
def _all_and_hardest(scores, n_targets, margin, c):  # type: ignore[no-untyped-def]
    """The same, and the hardest pair."""
    loss = _all(scores, n_targets, margin, c)
    target, impostor = np.argmin(scores[:n_targets]), _hardest(scores, n_targets)
    violation = margin - scores[target] + scores[impostor]
    if violation <= 0:
        return loss
    c[target] += np.float32(HARDEST_WEIGHT)
    c[impostor] -= np.float32(HARDEST_WEIGHT)
    return loss + HARDEST_WEIGHT * violation


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
