"""How far a difference of means over queries can be trusted."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.validation import expect
from nearkin.validation.parameters import checked

_DRAWS = 1 << 22  # numbers drawn at a time


@checked(
    confidence=expect.number(above=0, below=1),
    n_samples=expect.whole(1, 1_000_000),
    random_state=expect.whole(0, 2**32 - 1),
)
def paired_bootstrap(
    before: ArrayLike,
    after: ArrayLike,
    confidence: float = 0.95,
    n_samples: int = 2_000,
    random_state: int = 0,
) -> dict[str, float]:
    """Mean of ``after - before`` over queries, with its percentile bootstrap interval.

    Parameters
    ----------
    before, after : (m,) arrays
        One value of a measure for each query, such as ``ndcg_at_k(…, per_query=True)``. Queries
        without a value, NaN, are left out.

    Returns
    -------
    dict
        ``difference``, ``low`` and ``high``: it lies between the last two with this confidence.

    Examples
    --------
    >>> paired_bootstrap([0.0, 0.5, 1.0], [0.25, 0.75, 1.25])
    {'difference': 0.25, 'low': 0.25, 'high': 0.25}
    """
    arrays = {"before": before, "after": after}
    old, new = (_values(name, values) for name, values in arrays.items())
    if old.shape != new.shape:
        raise ValueError(
            f"before has {len(old)} values and after {len(new)}; one of each per query is expected"
        )
    both = ~np.isnan(old) & ~np.isnan(new)
    if not both.any():
        raise ValueError("before and after have no query with values in both; one is needed")
    gains = (new - old)[both]
    rng, means = np.random.default_rng(random_state), np.empty(n_samples)
    step = max(1, _DRAWS // len(gains))
    for lo in range(0, n_samples, step):
        part = means[lo : lo + step]
        part[:] = gains[rng.integers(0, len(gains), (len(part), len(gains)))].mean(axis=1)
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return {"difference": float(gains.mean()), "low": float(low), "high": float(high)}


def _values(name: str, values: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "fiub" or np.isinf(array).any():
        raise ValueError(
            f"{name} has shape {array.shape} and type {array.dtype}; one finite number per query, "
            "or NaN, is expected"
        )
    return array.astype(float)
