"""Work off the event loop, on a bounded queue; searches that wait together are done as one.

A search reads every row, or the cells near it, whether for one query or for many: while one batch
is searched, the next one gathers. Nobody waits for others to come.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from nearkin.serve.errors import Refused
from nearkin.serve.side import Places, Side

Array = NDArray[np.float32]
T = TypeVar("T")

BATCH = 256  # queries that are searched at once
RETRY_AFTER = 1  # seconds


def busy() -> Refused:
    """The queue is full."""
    return Refused(503, "too many requests are waiting; try again", retry_after=RETRY_AFTER)


class Workers:
    """Threads with a queue of limited length."""

    def __init__(self, threads: int, waiting: int, name: str = "nearkin-serve") -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self.most, self.pending = threads + waiting, 0

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        """Call ``work(*arguments)`` in a thread; refused where the queue is full."""
        if self.pending >= self.most:
            raise busy()
        self.pending += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)
        finally:
            self.pending -= 1

    def close(self) -> None:
        """Let what has begun end."""
        self._pool.shutdown(wait=True, cancel_futures=True)


class _Search(NamedTuple):
    side: Side
    queries: Array
    result: "asyncio.Future[tuple[Array, Places]]"


class Batcher:
    """Searches of all requests, on one thread that uses all cores."""

    def __init__(self, waiting: int) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="nearkin-search")
        self._waiting: list[_Search] = []
        self._most, self._drain = waiting, None
        self.batches = self.searched = 0

    @property
    def pending(self) -> int:
        """Queries that wait."""
        return sum(len(job.queries) for job in self._waiting)

    async def near(self, side: Side, queries: Array) -> tuple[Array, Places]:
        """What ``side.near(queries)`` gives; refused where too many wait."""
        if self.pending and self.pending + len(queries) > self._most:
            raise busy()
        loop = asyncio.get_running_loop()
        jobs = [
            _Search(side, queries[lo : lo + BATCH], loop.create_future())
            for lo in range(0, len(queries), BATCH)
        ]
        self._waiting += jobs
        if self._drain is None:
            self._drain = loop.create_task(self._run())
        parts = await asyncio.gather(*(job.result for job in jobs))
        scores, indices = (np.concatenate(part) for part in zip(*parts))
        return scores, indices

    async def _run(self) -> None:
        """Search for all who wait, until nobody does."""
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch = self._next_batch()
            queries = np.concatenate([job.queries for job in batch])
            try:
                found = await loop.run_in_executor(self._pool, batch[0].side.near, queries)
            except Exception as error:
                _tell(batch, error)
                continue
            self.batches, self.searched = self.batches + 1, self.searched + len(queries)
            edges = np.cumsum([len(job.queries) for job in batch])[:-1]
            for job, *part in zip(batch, *(np.split(values, edges) for values in found)):
                if not job.result.done():  # whoever asked may have gone
                    job.result.set_result((part[0], part[1]))
        self._drain = None

    def _next_batch(self) -> list[_Search]:
        """The first who waits, and as many others as ask the same side and fit in."""
        side, batch, room, left = self._waiting[0].side, [], BATCH, []
        for job in self._waiting:
            if job.side is side and len(job.queries) <= room:
                batch.append(job)
                room -= len(job.queries)
            else:
                left.append(job)
        self._waiting = left
        return batch

    def close(self) -> None:
        """Let the search that has begun end."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def _tell(batch: list[_Search], error: Exception) -> None:
    for job in batch:
        if not job.result.done():
            job.result.set_exception(error)
