"""joblib on the workers of a running dask scheduler."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from joblib import parallel_config

from nearkin.validation.extras import missing_extra


@contextmanager
def connected(address: str, timeout: float = 5.0) -> Iterator[Any]:
    """Run joblib's tasks on the dask scheduler at `address` inside the block.

    Unlike joblib's own dask back end, it raises a clear error within seconds if no scheduler
    answers.

    Parameters
    ----------
    address : str
        For example ``"tcp://host:8786"``.
    timeout : float
        Seconds to wait for an answer.
    """
    try:
        from distributed import Client
    except ImportError:
        raise missing_extra("a cluster", "dask", "cluster") from None
    try:
        client = Client(address, timeout=timeout, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"no dask scheduler answers at {address!r} within {timeout:g} s ({error}); start one "
            "with 'dask scheduler' and give its address, such as tcp://host:8786"
        ) from None
    try:
        with client.as_current(), parallel_config(backend="dask", wait_for_workers_timeout=timeout):
            yield client
    finally:
        client.close()
