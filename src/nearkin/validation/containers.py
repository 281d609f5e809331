"""Results of `transform` as the arrays or data frames that scikit-learn is configured for."""

from typing import Any

from sklearn.utils._set_output import _wrap_data_with_container


def in_container(estimator: Any, rows: Any, X: Any) -> Any:
    """`rows` as they are, or as the data frame that ``set_output`` or the configuration wants.

    For methods that scikit-learn's own wrapping does not suit: it hides `available_if`, and takes
    its first argument by position only.
    """
    return _wrap_data_with_container("transform", rows, X, estimator)
