"""The process: a socket, uvicorn, and an end that lets requests in flight finish."""

import errno
import socket
from collections.abc import Callable
from typing import Any

from nearkin.serve.guard import is_loopback

CONNECTIONS = 1_000
SECONDS_TO_FINISH = 30


def bind(host: str, port: int) -> socket.socket:
    """A socket that nobody listens to yet: a port in use is known before a model is read."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except (OSError, UnicodeError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        used = getattr(error, "errno", None) == errno.EADDRINUSE
        advice = "give another --port, or 0 for a free one" if used else "give another --host"
        raise ValueError(f"--host {host} --port {port}: {reason}; {advice}") from None
    return bound


def url_of(bound: socket.socket, host: str) -> str:
    """Where a browser finds the page."""
    name = host if is_loopback(host) or host not in ("0.0.0.0", "::") else socket.gethostname()
    return f"http://{f'[{name}]' if ':' in name else name}:{bound.getsockname()[1]}/"


def serve(app: Any, bound: socket.socket, ready: Callable[[], None]) -> None:
    """Answer until a signal comes; then finish what has begun. The signal is raised again."""
    import uvicorn

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                ready()

    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, ws="none",
        lifespan="on", proxy_headers=False, limit_concurrency=CONNECTIONS,
        timeout_graceful_shutdown=SECONDS_TO_FINISH, timeout_keep_alive=30,
    )  # fmt: skip
    Server(config).run(sockets=[bound])
