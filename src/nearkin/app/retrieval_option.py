"""The option ``--retrieval``: a retrieval of its own, as text."""

from typing import Any

GIVEN = "given"
FORMAT = f"{GIVEN!r} for the rows as they are, or settings such as 'power=0.5,whitening=0.5'"
_SETTINGS = {"components": int, "power": float, "whitening": float}


def retrieval_option_problem(text: Any) -> str | None:
    """What is wrong with the text of a retrieval, or None: an `Expectation`."""
    try:
        parse_retrieval(text)
    except ValueError:
        return f"{FORMAT}; {', '.join(_SETTINGS)} are known"
    return None


def parse_retrieval(text: str) -> dict[str, float] | None:
    """Settings of the preprocessing in whose output neighbours are searched; None for none.

    Examples
    --------
    >>> parse_retrieval("power=0.5,whitening=0.5")
    {'power': 0.5, 'whitening': 0.5}
    """
    if text == GIVEN:
        return None
    found: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        if name not in _SETTINGS or name in found:
            raise ValueError(f"{part!r} is no setting")
        found[name] = _SETTINGS[name](value)
    return found


def retrieval_transformer(text: str, shape: tuple[int, int], most: int, seed: int) -> Any:
    """The transformer of a retrieval, not fitted; None for rows as they are."""
    from nearkin import Preprocess

    found = parse_retrieval(text)
    if found is None:
        return None
    components = int(found.pop("components", min(*shape, most)))
    settings: dict[str, Any] = {"whitening": 0.0} | found
    return Preprocess(components, **settings, random_state=seed)
