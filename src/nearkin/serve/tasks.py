"""Work in the background, in short steps: begun when it is first asked for, with its progress."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

PAUSE = 0.02  # seconds between two looks whether requests are waiting


class Traffic:
    """How many requests are being answered; background work gives way to them."""

    def __init__(self) -> None:
        self.active = 0


class BackgroundTask(ABC):
    """A thread that runs `steps` once.

    `steps` yields the share that is done, some times a second; between two steps the thread waits
    for a moment without traffic, but not forever.
    """

    patience = 1.0  # seconds that a step waits for others at most

    def __init__(self) -> None:
        self.done, self.error = 0.0, ""
        self._stop, self._lock = threading.Event(), threading.Lock()
        self._thread: threading.Thread | None = None

    @abstractmethod
    def steps(self) -> Iterator[float]:
        """Do the work."""

    def start(self, traffic: Traffic) -> None:
        """Begin, unless it has begun."""
        with self._lock:
            if self._thread is None and not self._stop.is_set():
                name = f"nearkin-{type(self).__name__}"
                self._thread = threading.Thread(
                    target=self._run, args=(traffic,), name=name, daemon=True
                )
                self._thread.start()

    def stop(self) -> None:
        """End after the current step, and wait for that."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=30)

    @property
    def finished(self) -> bool:
        """Whether all is done."""
        return self.done >= 1 and not self.error

    def progress(self) -> dict[str, Any]:
        """How far it is, in JSON."""
        state = "failed" if self.error else "done" if self.finished else "running"
        return {"state": state, "done": round(self.done, 4), "error": self.error or None}

    def _run(self, traffic: Traffic) -> None:
        try:
            for share in self.steps():
                self.done = min(share, 1.0)
                self._give_way(traffic)
                if self._stop.is_set():
                    return
            self.done = 1.0
        except Exception as error:  # of a thread, whom nobody else would tell
            self.error = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"

    def _give_way(self, traffic: Traffic) -> None:
        waited = 0.0
        while traffic.active and waited < self.patience and not self._stop.wait(PAUSE):
            waited += PAUSE
