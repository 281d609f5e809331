"""The application: page, endpoints, errors in one form."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib import resources
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response

import nearkin
from nearkin.native.threads import limited_libraries
from nearkin.serve import monitoring, reload
from nearkin.serve.errors import Json, Refused, error_response
from nearkin.serve.garbage import settled
from nearkin.serve.gate import Gate, Limits
from nearkin.serve.guard import Guard
from nearkin.serve.reload import Holder
from nearkin.serve.routes import routes
from nearkin.serve.state import State

PAGES = {"/": "index.html", "/docs": "docs.html"}
FILES = {"style.css": "text/css", "page.js": "text/javascript", "widgets.js": "text/javascript",
         "map.js": "text/javascript", "docs.js": "text/javascript",
         "icon.svg": "image/svg+xml"}  # fmt: skip


def create_app(
    holder: Holder,
    guard: Guard | None = None,
    limits: Limits | None = None,
    look_seconds: float = reload.SECONDS,
) -> FastAPI:
    """The service over the model of a holder; any ASGI server can run it."""
    limits = limits or Limits()
    state = State(holder, limits)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        watch = asyncio.create_task(holder.watch(state.monitor, look_seconds))
        # Large products are shared out by panels; threads of BLAS spin for long after each product.
        with limited_libraries(1), settled():
            yield
        watch.cancel()
        with suppress(asyncio.CancelledError):
            await watch
        await asyncio.to_thread(state.close)

    app = FastAPI(
        title="nearkin", version=nearkin.__version__, lifespan=lifespan,
        docs_url=None, redoc_url=None,  # both load scripts from foreign hosts; /docs is our own
        description="Search and classify by a learned similarity.",
    )  # fmt: skip
    app.state.service = state
    app.include_router(routes(state))
    _add_operations(app, state)
    _add_pages(app)
    _add_errors(app)
    app.add_middleware(
        Gate, guard=guard or Guard(), limits=limits, monitor=state.monitor, traffic=state.traffic
    )
    return app


def _add_operations(app: FastAPI, state: State) -> None:
    @app.get("/health")
    async def health() -> Response:
        """Whether the service answers; and why a new model was refused."""
        return Json({"status": "ok", "reload_error": state.holder.error or None})

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> Response:
        """Counters in the text format of Prometheus."""
        return Response(state.monitor.text(state.gauges()), media_type=monitoring.CONTENT_TYPE)


def _add_pages(app: FastAPI) -> None:
    """The page and what it loads, read once; nothing else of the disk can be asked for."""
    folder = resources.files("nearkin.serve") / "static"
    unchanged = {"Cache-Control": "no-cache"}

    def add(path: str, file: str, kind: str) -> None:
        content = (folder / file).read_bytes()

        async def answer() -> Response:
            return Response(content, media_type=kind, headers=unchanged)

        app.add_api_route(path, answer, include_in_schema=False, methods=["GET", "HEAD"])

    for path, file in PAGES.items():
        add(path, file, "text/html; charset=utf-8")
    for file, kind in FILES.items():
        add(f"/static/{file}", file, kind)


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(HTTPException)
    async def refused(_: Request, error: HTTPException) -> Response:
        field = error.field if isinstance(error, Refused) else None
        return error_response(error.status_code, error.detail, field, error.headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        first: dict[str, Any] = dict(error.errors()[0])
        if first["type"] == "json_invalid":
            return error_response(400, f"the body is no JSON: {first['ctx']['error']}", "body")
        field = _field(first["loc"])
        return error_response(422, f"{field}: {first['msg']}", field)

    @app.exception_handler(Exception)
    async def failed(_: Request, error: Exception) -> Response:
        return error_response(500, f"unexpected {type(error).__name__}: a bug in nearkin")


def _field(location: tuple[Any, ...]) -> str:
    """Where in a body or query a value is: ``vectors[3][1]``.

    Examples
    --------
    >>> _field(("body", "vectors", 3, 1))
    'vectors[3][1]'
    """
    name, *rest = location[1:] or location
    return f"{name}" + "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in rest)
