"""What every request passes before it is parsed: who asks, how much, how slowly; and is counted."""

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nearkin.serve.batching import busy
from nearkin.serve.errors import Refused, error_response
from nearkin.serve.guard import SECURITY_HEADERS, Guard
from nearkin.serve.monitoring import Monitor
from nearkin.serve.tasks import Traffic


@dataclass(frozen=True)
class Limits:
    """What one request, and all of them together, may take."""

    body: int = 16 << 20  # bytes
    all_bodies: int = 256 << 20  # bytes of requests that are being answered
    seconds: float = 30.0  # to send a body
    queries: int = 4_096  # that wait for a search
    tasks: int = 64  # that wait for a thread
    pictures: int = 1_024  # that wait to be drawn


class Gate:
    """ASGI middleware around the application."""

    def __init__(
        self, app: ASGIApp, guard: Guard, limits: Limits, monitor: Monitor, traffic: Traffic
    ) -> None:
        self.app, self.guard, self.limits = app, guard, limits
        self.monitor, self.traffic = monitor, traffic
        self._held = 0  # bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or refuse it; count it either way."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        start, sent = time.perf_counter(), _Sent(send)
        self.monitor.in_flight += 1
        counts = scope["path"].startswith("/v1/")  # background work gives way to questions only
        self.traffic.active += counts
        try:
            await self._answer(scope, receive, sent)
        finally:
            self.traffic.active -= counts
            self.monitor.in_flight -= 1
            endpoint = getattr(scope.get("route"), "path", "other")
            self.monitor.answered(endpoint, sent.status, time.perf_counter() - start)

    async def _answer(self, scope: Scope, receive: Receive, sent: "_Sent") -> None:
        body = _Body(self, receive)
        try:
            headers = {
                k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]
            }
            self.guard.check(scope["path"], headers)
            _check_type(scope["method"], headers)
            async with asyncio.timeout(self.limits.seconds):
                await body.read(headers)
        except (Refused, TimeoutError) as error:
            refused = error if isinstance(error, Refused) else Refused(408, "the body is too slow")
            response = error_response(
                refused.status_code, refused.detail, refused.field, refused.headers
            )
            response.headers["Connection"] = "close"  # the rest of a body is not read
            await response(scope, receive, sent)
        else:
            await self.app(scope, body.replay, sent)
        finally:
            self._held -= body.size

    def hold(self, n: int, total: int) -> None:
        """Take in `n` bytes of a request that then has `total`; refused where that is too much."""
        if total > self.limits.body:
            raise Refused(
                413, f"the body has more than {self.limits.body:,} bytes; send less at a time",
                "body",
            )  # fmt: skip
        if self._held + n > self.limits.all_bodies:
            raise busy()
        self._held += n


class _Body:
    """The body of a request, read within limits, then handed on."""

    def __init__(self, gate: Gate, receive: Receive) -> None:
        self.gate, self.receive = gate, receive
        self.messages: list[Message] = []
        self.size = 0

    async def read(self, headers: dict[str, str]) -> None:
        announced = headers.get("content-length", "0")
        self.gate.hold(0, int(announced) if announced.isdigit() else 0)
        more = announced != "0" or "transfer-encoding" in headers
        while more:
            message = await self.receive()
            self.messages.append(message)
            if message["type"] != "http.request":
                return
            n = len(message.get("body", b""))
            self.gate.hold(n, self.size + n)
            self.size += n
            more = message.get("more_body", False)

    async def replay(self) -> Message:
        """What was read, then what comes after it."""
        return self.messages.pop(0) if self.messages else await self.receive()


class _Sent:
    """Adds the security headers to a response, and notes its status."""

    def __init__(self, send: Send) -> None:
        self.send, self.status = send, 500

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers: list[Any] = list(message.get("headers", []))
            headers += [(k.lower().encode(), v.encode()) for k, v in SECURITY_HEADERS.items()]
            message = {**message, "headers": headers}
        await self.send(message)


def _check_type(method: str, headers: dict[str, str]) -> None:
    """Refuse bodies that are not JSON: a form of another site could send them."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if method == "POST" and kind != "application/json":
        raise Refused(415, f"the body is {kind[:60] or 'of no type'!r}; send application/json",
                      "Content-Type")  # fmt: skip
