"""What a request can be refused for: a status, the field to blame, and what to do."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response


class Refused(HTTPException):
    """A request that cannot be answered; becomes a response of this status."""

    def __init__(
        self, status: int, message: str, field: str | None = None, retry_after: int | None = None
    ) -> None:
        again = None if retry_after is None else {"Retry-After": str(retry_after)}
        super().__init__(status, message, headers=again)
        self.field = field


class Json(Response):
    """JSON in ASCII: a name may hold what UTF-8 cannot."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """The body."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


def error_response(
    status: int, message: str, field: str | None = None, headers: Mapping[str, str] | None = None
) -> Json:
    """What every refused request gets."""
    return Json({"error": {"field": field, "message": message}}, status, headers)


@contextmanager
def refusing(field: str, status: int = 422) -> Iterator[None]:
    """Blame a field of the request for a value that the package refuses."""
    try:
        yield
    except (ValueError, TypeError, OverflowError) as error:
        raise Refused(status, " ".join(str(error).split()), field) from None
