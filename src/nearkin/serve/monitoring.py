"""Counters of the service, in the text format of Prometheus."""

import math
from collections import Counter
from collections.abc import Iterable

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Monitor:
    """Requests by endpoint and status, how long they took, and how a new model was taken.

    Examples
    --------
    >>> monitor = Monitor()
    >>> monitor.answered("/v1/search", 200, 0.004)
    >>> print(monitor.text([("nearkin_rows", "gauge", "Stored rows.", 7)]).splitlines()[2])
    nearkin_requests_total{endpoint="/v1/search",status="200"} 1
    """

    def __init__(self) -> None:
        self.in_flight = 0
        self.requests: Counter[tuple[str, int]] = Counter()
        self.reloads: Counter[str] = Counter({"taken": 0, "refused": 0})
        self._buckets: dict[str, list[int]] = {}
        self._sums: Counter[str] = Counter()

    def answered(self, endpoint: str, status: int, seconds: float) -> None:
        """Count one response."""
        self.requests[endpoint, status] += 1
        counts = self._buckets.setdefault(endpoint, [0] * (len(SECONDS) + 1))
        counts[next((i for i, most in enumerate(SECONDS) if seconds <= most), len(SECONDS))] += 1
        self._sums[endpoint] += seconds  # type: ignore[assignment]

    def text(self, gauges: Iterable[tuple[str, str, str, float]] = ()) -> str:
        """All counters, and further values: name, type, help, value."""
        lines = _head("nearkin_requests_total", "counter", "Responses by endpoint and status.")
        lines += [
            f'nearkin_requests_total{{endpoint="{endpoint}",status="{status}"}} {count}'
            for (endpoint, status), count in sorted(self.requests.items())
        ]
        lines += _head("nearkin_request_seconds", "histogram", "Time until the response was sent.")
        for endpoint, counts in sorted(self._buckets.items()):
            lines += self._histogram(endpoint, counts)
        lines += _head("nearkin_reloads_total", "counter", "New models found in place of the old.")
        lines += [
            f'nearkin_reloads_total{{result="{result}"}} {count}'
            for result, count in sorted(self.reloads.items())
        ]
        own = ("nearkin_requests_in_flight", "gauge", "Requests being answered.", self.in_flight)
        for name, kind, text, value in (own, *gauges):
            lines += [*_head(name, kind, text), f"{name} {_number(value)}"]
        return "\n".join(lines) + "\n"

    def _histogram(self, endpoint: str, counts: list[int]) -> list[str]:
        name, total, lines = "nearkin_request_seconds", 0, []
        for most, count in zip((*SECONDS, math.inf), counts):
            total += count
            bound = "+Inf" if most == math.inf else f"{most:g}"
            lines.append(f'{name}_bucket{{endpoint="{endpoint}",le="{bound}"}} {total}')
        lines.append(f'{name}_sum{{endpoint="{endpoint}"}} {self._sums[endpoint]:.6f}')
        return [*lines, f'{name}_count{{endpoint="{endpoint}"}} {total}']


def _head(name: str, kind: str, text: str) -> list[str]:
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6f}"
