"""A request, its answer, and what all calls of a client share. Nothing here reads or writes."""
from __future__ import annotations

import json
import warnings
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Mapping, Optional, TypedDict

from ._address import Address
from ._tokens import Token, TokenSource
from ._units import seconds
from ._version import VERSION
from .errors import Invalid, Unreachable

Hook = Callable[[Dict[str, Any]], None]
AGENT = f"penstock-python/{VERSION}"
DEFAULT_TIMEOUT = 10.0
MAX_ANSWER = 64 << 20


@dataclass
class Answer:
    """A whole answer. The names of its headers are in lower case. ``value`` is its parsed body."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    value: Any = None


def parse_json(body: bytes) -> Any:
    """Return the value of a body. A body that is cut off counts as no answer."""
    try:
        return json.loads(body)
    except ValueError as error:
        raise Unreachable(f"the answer is not JSON, is this a Penstock server? {error}") from error


@dataclass
class Send:
    """Send a request and return its Answer. The answer must be complete within the time left."""

    method: str
    path: str
    headers: Dict[str, str]
    body: Optional[bytes]
    left: float
    cancel: Any = None


@dataclass
class Call:
    """A request with everything that decides its tries."""

    method: str
    path: str
    body: Any = None
    repeatable: bool = True
    headers: Dict[str, str] = field(default_factory=dict)
    timeout: Optional[float] = None
    extra: float = 0.0  # time that the server may wait, beside the usual timeout
    queue: str = ""
    parse: Callable[[bytes], Any] = parse_json


class Core:
    """The configuration that all calls of a client share."""

    def __init__(
        self, url: Optional[str] = None, token: Token = None, timeout: float = DEFAULT_TIMEOUT, *,
        on: Optional[Hook] = None, trace: Optional[Callable[[], Mapping[str, str]]] = None, tls: Any = None,
    ) -> None:
        self.address = Address(url, tls)
        self.tokens = TokenSource(token)
        self.timeout = seconds(timeout)
        self.on, self.trace = on, trace

    def report(self, kind: str, **what: Any) -> None:
        """Call the hook. An error of the hook becomes a warning, so that it never breaks a worker."""
        if self.on is None:
            return
        event = {"kind": kind, **{name: value for name, value in what.items() if value not in (None, "")}}
        try:
            self.on(event)
        except Exception as error:
            warnings.warn(f"the hook failed: {error!r}", RuntimeWarning, stacklevel=2)

    def headers(self, token: Optional[str], extra: Mapping[str, str], traceparent: Optional[str]) -> Dict[str, str]:
        """Return the headers of a request."""
        headers = {"User-Agent": AGENT, "Accept": "application/json, application/problem+json"}
        if token:
            headers["Authorization"] = "Bearer " + token
        if self.trace:
            try:
                headers.update({str(name): str(value) for name, value in self.trace().items()})
            except Exception as error:
                raise Invalid(f"the callback failed: {error!r}", "trace") from error
        if traceparent:
            headers["traceparent"] = traceparent
        headers.update(extra)
        return headers


class CallOptions(TypedDict, total=False):
    """Options of each call. ``cancel`` works only in the blocking client: asyncio cancels tasks."""

    timeout: Optional[float]
    traceparent: str
    cancel: Any


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def encode(value: Any, field: str = "body") -> bytes:
    """Return a value as JSON."""
    try:
        return _ENCODER.encode(value).encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(f"cannot be written as JSON: {error}", field) from error
