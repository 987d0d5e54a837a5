"""The errors that calls raise."""
from __future__ import annotations

from typing import Any, Mapping, Optional


class PenstockError(Exception):
    """The base class of all errors of this package."""


class Invalid(PenstockError, ValueError):
    """The client found a misuse and sent nothing."""

    def __init__(self, detail: str, field: str = "") -> None:
        super().__init__(f"{field}: {detail}" if field else detail)
        self.field = field


class Refused(PenstockError):
    """The server refused the request.

    ``reason`` is one of the reasons of the HTTP API, or ``http_error`` if a proxy answered. ``retry_after`` is in
    seconds, or None if the server did not say. ``raw`` has all fields of the answer, and ``headers`` its headers
    with names in lower case.
    """

    def __init__(
        self, status: int, reason: str, detail: str = "", field: str = "", id: str = "",
        retry_after: Optional[float] = None, raw: Optional[Mapping[str, Any]] = None,
        headers: Optional[Mapping[str, str]] = None,
    ) -> None:
        super().__init__(f"{field + ': ' if field else ''}{detail or reason} ({reason}, HTTP {status})")
        self.status, self.reason, self.detail, self.field, self.id = status, reason, detail, field, id
        self.retry_after = retry_after
        self.raw, self.headers = raw or {}, headers or {}


class Unreachable(PenstockError):
    """No answer came, or only part of one. The request may have succeeded."""


def unanswered(address: str, error: BaseException) -> Unreachable:
    """Return the error of a call to a server that cannot be reached, or that broke off."""
    if isinstance(error, ConnectionRefusedError):
        return Unreachable(f"nothing answers at {address}: is Penstock running there?")
    return Unreachable(f"no answer from {address}: {error!r}")


class TimedOut(Unreachable, TimeoutError):
    """The call did not end within its timeout."""


class Cancelled(PenstockError):
    """The caller cancelled the call with a ``Cancel``."""
