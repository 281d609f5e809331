"""Outcomes: what counts as fine, as a clear error, and as wrong."""

import os
import re
from dataclasses import dataclass

import numpy as np
from scipy import sparse

OUTCOMES = ("fine", "clear", "obscure", "wrong", "crash", "hang", "unjudged")
FAILING = ("wrong", "crash", "hang")
MOST_OBSCURE, MOST_UNJUDGED = 0.01, 0.10

# Types that an error of the user's making has. Others are faults of the library.
EXPECTED = (ValueError, TypeError, OSError, MemoryError, ImportError, RuntimeError, ArithmeticError)
ALIASES = {"random_state": ("seed",), "seed": ("seed",)}
# scikit-learn's own checks name X and y in these words, or say what to do.
FAMILIAR = re.compile(
    r"Input [Xy]\b|Input contains|Found array|Expected 2D array|Unknown label type|not fitted|"
    r"inconsistent numbers of samples|X has \d+ features|[Yy] should be a 1d array|Sparse data|"
    r"Complex data|requires y to be passed|np\.matrix is not supported|Expected a 1-dimensional"
)
HELPS = re.compile(
    r"\b(must|expected?|needs?|needed|give|use|pass|lower|raise|make|drop|fill|choose|check|free|"
    r"again|at least|at most|between|one of|one per|holds?|has|is not|is a|only|contains?|cannot|"
    r"should|does not exist|exists|there is no|in use|leave|says|are|requested|such as|"
    r"takes?|could not be)\b"
)
INTERNAL = re.compile(
    r"a bug in nearkin|not supported between|unsupported operand|object is not|has no attribute|"
    r"has no len|positional argument|not subscriptable|could not be broadcast|could not broadcast|"
    r"cannot unpack|not enough values|out of bounds|Traceback|Cannot cast|ufunc|numba|__\w+__"
)


@dataclass(frozen=True)
class Verdict:
    """An outcome and, unless all is well, what was seen."""

    outcome: str
    detail: str = ""


FINE = Verdict("fine")


def of_error(error: BaseException, names: tuple[str, ...]) -> Verdict:
    """Clear if the error names one of `names` and says what was found or what to do."""
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, AssertionError):  # of the harness
        return Verdict("wrong", text[:600])
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return Verdict("clear", text[:600])  # the system names the path and what is wrong with it
    expected = isinstance(error, EXPECTED) and not isinstance(error, RecursionError)
    return Verdict("clear" if expected and is_clear(str(error), names) else "obscure", text[:600])


def is_clear(message: str, names: tuple[str, ...]) -> bool:
    """Whether a message names what is wrong, and helps."""
    if FAMILIAR.search(message):
        return True
    wanted = [alias for name in names for alias in (name, *ALIASES.get(name, ()))]
    words = (rf"(?<![a-z0-9]){re.escape(name)}(?![a-z0-9])" for name in wanted if name)
    named = any(re.search(word, message, re.IGNORECASE) for word in words)
    said = re.sub(r"\(.*\)", "", message, flags=re.DOTALL)  # in brackets: what others have said
    return named and bool(HELPS.search(message)) and not INTERNAL.search(said)


def same(a: object, b: object, tolerance: float = 2e-4) -> bool:
    """Whether two results agree: labels and places exactly, numbers nearly."""
    left, right = flat(a), flat(b)
    return len(left) == len(right) and all(_agree(x, y, tolerance) for x, y in zip(left, right))


def _agree(x: np.ndarray, y: np.ndarray, tolerance: float) -> bool:
    if x.shape != y.shape:
        return False
    if x.dtype.kind in "fc" and y.dtype.kind in "fc":
        finite = np.abs(y[np.isfinite(y)])
        slack = tolerance * max(1e-12, float(finite.max(initial=0)))
        return bool(np.allclose(x, y, rtol=tolerance, atol=slack, equal_nan=True))
    return bool((x == y).all())


def flat(result: object) -> list[np.ndarray]:
    """All arrays of a result."""
    if result is None or isinstance(result, str | os.PathLike):
        return []
    if sparse.issparse(result):
        return [result.toarray()]
    if isinstance(result, dict):
        return [array for key in sorted(result) for array in flat(result[key])]
    if isinstance(result, list | tuple) and not all(np.isscalar(item) for item in result):
        return [array for item in result for array in flat(item)]
    array = np.asarray(result)
    return [] if array.dtype.kind == "O" and array.ndim == 0 else [array]


def told(result: object) -> str:
    """The reasons that a result gives for what it lacks: some functions report and do not raise."""
    parts = result if isinstance(result, tuple) else ()
    reasons = [v for part in parts if isinstance(part, dict) for v in part.values()]
    return "; ".join(v for v in reasons if isinstance(v, str))


def insane(result: object) -> str:
    """What no result may contain, or nothing."""
    for array in flat(result):
        if array.dtype.kind in "fc" and np.isnan(array).any():
            return f"NaN in a result of shape {array.shape}"
    return ""
