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
from nearkin.serve.searched import Shortlist

T = TypeVar("T")
Near = Callable[[NDArray[Any]], Shortlist]

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
    near: Near
    asked: NDArray[Any]
    result: "asyncio.Future[Shortlist]"


class Batcher:
    """Searches of all requests, on one thread that uses all cores."""

    def __init__(self, waiting: int) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="nearkin-search")
        self._waiting: list[_Search] = []
        self._most = waiting
        self._drain: asyncio.Task[None] | None = None
        self.batches = self.searched = 0
        self.pending = 0  # queries that wait

    async def search(self, near: Near, asked: NDArray[Any]) -> Shortlist:
        """What ``near(asked)`` gives, a method of a `SearchedSide`; refused where too many wait."""
        if self.pending and self.pending + len(asked) > self._most:
            raise busy()
        loop = asyncio.get_running_loop()
        jobs = [
            _Search(near, asked[lo : lo + BATCH], loop.create_future())
            for lo in range(0, len(asked), BATCH)
        ]
        self._waiting += jobs
        self.pending += len(asked)
        if self._drain is None:
            self._drain = loop.create_task(self._run())
        parts = await asyncio.gather(*(job.result for job in jobs))
        return parts[0] if len(parts) == 1 else Shortlist(*map(np.concatenate, zip(*parts)))

    async def _run(self) -> None:
        """Search for all who wait, until nobody does."""
        while self._waiting:
            batch = self._next_batch()
            if not await self._answer(batch) and len(batch) > 1:
                for job in batch:  # one may have spoilt it for the others
                    await self._answer([job])
        self._drain = None

    def _next_batch(self) -> list[_Search]:
        """The first who waits, and as many others as ask for the same and fit in."""
        near, room = self._waiting[0].near, BATCH
        batch: list[_Search] = []
        left: list[_Search] = []
        for job in self._waiting:
            fits = job.near == near and len(job.asked) <= room
            (batch if fits else left).append(job)
            room -= len(job.asked) if fits else 0
        self._waiting = left
        self.pending -= BATCH - room
        return batch

    async def _answer(self, batch: list[_Search]) -> bool:
        """Search for a batch; whether it, or the error of a single search, was delivered."""
        asked = np.concatenate([job.asked for job in batch])
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(self._pool, batch[0].near, asked)
        except Exception as error:
            if len(batch) == 1 and not batch[0].result.done():
                batch[0].result.set_exception(error)
            return False
        self.batches, self.searched = self.batches + 1, self.searched + len(asked)
        edges = np.cumsum([len(job.asked) for job in batch])[:-1]
        for job, *parts in zip(batch, *(np.split(values, edges) for values in found)):
            if not job.result.done():  # whoever asked may have gone
                job.result.set_result(Shortlist(*parts))
        return True

    def close(self) -> None:
        """Let the search that has begun end."""
        self._pool.shutdown(wait=True, cancel_futures=True)
