"""The garbage collector, spared what stays.

Compilers and models are some hundred thousand objects. Looking through them, about once a second
under load, stops every request for a tenth of a second and more.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


def settle() -> None:
    """Collect once, then leave alone what is there now."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


@contextmanager
def settled() -> Iterator[None]:
    """What is there before is left alone."""
    settle()
    try:
        yield
    finally:
        gc.unfreeze()
