"""Bad arguments for everything public."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hostile import judge, surface
from hostile.cases import attacks, oracles
from hostile.cases.attacks import FORMS, Attack
from hostile.judge import FINE, Verdict
from hostile.runner import Case
from hostile.surface import ARRAYS, Target


def cases(seed: int, rounds: int = 1) -> Iterator[Case]:
    """Every attack on every argument; each round with other draws."""
    for round_ in range(rounds):
        for target in surface.targets():
            for argument in target.open_to_attack:
                for attack in attacks.attacks_on(argument, target.usual(argument)):
                    yield _case(target, argument, attack, (seed, round_))


def _case(target: Target, argument: str, attack: Attack, seeds: tuple[int, int]) -> Case:
    name = f"{target.name}/{argument}/{attack.name}/{seeds[1]}"
    return Case("inputs", name, lambda: _run(target, argument, attack, name, seeds[0]))


def names_for(target: Target, argument: str, bad: Any) -> tuple[str, ...]:
    """Names under which an error may speak of an argument; a path may speak for itself."""
    related = surface.RELATED.get(argument, ())
    path = isinstance(bad, str) and argument in attacks.PATH_NAMES
    return (argument, *related, *((bad, str(Path(bad))) if path else ()))


def _run(target: Target, argument: str, attack: Attack, name: str, seed: int) -> Verdict:
    rng = np.random.default_rng([seed, *name.encode()])
    try:
        bad = attack.make(target.usual(argument), rng)
    except (TypeError, ValueError, IndexError) as error:  # an attack on something it does not suit
        return Verdict("fine", f"not applicable: {error}")
    try:
        result = target.call(**{argument: bad})
    except Exception as error:
        return judge.of_error(error, names_for(target, argument, bad))
    return accepted(target, argument, bad, attack.expects, result, rng)


def accepted(
    target: Target, argument: str, bad: Any, expects: str, result: Any, rng: np.random.Generator
) -> Verdict:
    """Judge what came of a call that was not refused."""
    if reason := judge.insane(result):
        return Verdict("wrong", reason)
    try:
        given = target.usual(argument)
        usual = target.call(**({} if given is None else {argument: given}))
    except Exception as error:
        return Verdict("unjudged", f"accepted, but the clean call fails: {error}")
    if judge.same(result, usual):
        return FINE
    if np.size(bad) == 0 and not any(array.size for array in judge.flat(result)):
        return FINE  # nothing for nothing
    if reasons := judge.told(result):
        return Verdict("clear", reasons)
    if expects in ("same", "refuse"):
        return Verdict("wrong", f"expected {expects}, got another answer: {_shown(result, usual)}")
    if naive := oracles.NAIVE.get(target.name):
        return naive(result, **target.clean | {argument: bad})
    others = {n: v for n, v in (target.clean | {argument: bad}).items() if n in ARRAYS}
    if not others or not hasattr(others.get(argument, np.zeros(0)), "__array__"):
        return Verdict("unjudged", "accepted, and there is nothing to compare with")
    form = FORMS[rng.integers(len(FORMS))]
    other = {n: tuple(v) if n == "images" else form.make(v, rng) for n, v in others.items()}
    again = target.call(**{argument: bad} | other)
    if judge.same(result, again):
        return FINE
    return Verdict("wrong", f"{form.name} gives another answer: {_shown(result, again)}")


def _shown(result: Any, other: Any) -> str:
    return f"{judge.flat(result)!r:.200} and {judge.flat(other)!r:.200}"
