"""What a running service holds: the model in place, queues, threads and counters."""

import os
from typing import TYPE_CHECKING

from nearkin.serve.answers import Answers
from nearkin.serve.batching import Batcher, Workers
from nearkin.serve.gate import Limits
from nearkin.serve.monitoring import Monitor
from nearkin.serve.reload import Holder
from nearkin.serve.review import ReviewTask
from nearkin.serve.tasks import Traffic

if TYPE_CHECKING:
    from nearkin.serve.engine import Engine


class State:
    """Made with the application, closed when it stops."""

    def __init__(self, holder: Holder, limits: Limits) -> None:
        threads = min(4, os.cpu_count() or 1)
        self.holder, self.monitor, self.traffic = holder, Monitor(), Traffic()
        self.batcher = Batcher(limits.queries)
        self.answers = Answers(Workers(threads, limits.tasks), self.batcher)
        self.pictures = Workers(threads, limits.pictures, "nearkin-pictures")

    @property
    def engine(self) -> "Engine":
        """The model in place; a request reads this once."""
        return self.holder.engine

    def review(self) -> ReviewTask:
        """The review of the model in place, begun when first asked for."""
        self.engine.require("review")
        task = self.engine.review
        task.start(self.traffic)
        return task

    def gauges(self) -> list[tuple[str, str, str, float]]:
        """Values of the moment, for the monitor."""
        engine, batcher = self.engine, self.batcher
        return [
            ("nearkin_rows", "gauge", "Stored rows of the model in place.", engine.n_rows),
            ("nearkin_model_taken_seconds", "gauge", "When the model was put in place.",
             int(engine.version, 16) / 1e9),
            ("nearkin_queries_waiting", "gauge", "Queries that wait for a search.",
             batcher.pending),
            ("nearkin_queries_total", "counter", "Queries that were searched.", batcher.searched),
            ("nearkin_batches_total", "counter", "Searches, of one or more queries.",
             batcher.batches),
        ]  # fmt: skip

    def close(self) -> None:
        """End all threads, after what they are doing."""
        self.engine.close()
        for part in (self.batcher, self.answers.workers, self.pictures):
            part.close()
