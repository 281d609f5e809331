"""What a request can be refused for: a status, the field to blame, and what to do."""

from collections.abc import Iterator
from contextlib import contextmanager


class Refused(Exception):
    """A request that cannot be answered; becomes a response of this status."""

    def __init__(
        self, status: int, message: str, field: str | None = None, retry_after: int | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.field = status, message, field
        self.retry_after = retry_after

    def body(self) -> dict[str, object]:
        """The body of the response, in JSON."""
        return {"error": {"field": self.field, "message": self.message}}

    def headers(self) -> dict[str, str]:
        """Headers of the response."""
        return {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}


@contextmanager
def refusing(field: str, status: int = 422) -> Iterator[None]:
    """Blame a field of the request for a value that the package refuses."""
    try:
        yield
    except (ValueError, TypeError, OverflowError) as error:
        raise Refused(status, " ".join(str(error).split()), field) from None
