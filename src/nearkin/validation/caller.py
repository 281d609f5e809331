"""Warnings that point to the line of the user's that called into the package."""

import inspect
import warnings

_PACKAGE = "nearkin"


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the first line outside the package, however deep within the cause was found."""
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] == _PACKAGE:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
