"""Middleware that asks a rule before each request, for WSGI and ASGI."""
from __future__ import annotations

import json
import math
from typing import Any, Awaitable, Callable, Dict, Iterable, List, Optional, Tuple

from ._answers import Taken, waits
from ._units import Seconds, Span, seconds
from .aio import AsyncPenstock
from .client import Penstock
from .errors import Invalid, PenstockError

Headers = List[Tuple[str, str]]

# URL below which each reason has a page. A problem's type is this URL and the reason, as in answers of the server.
PROBLEMS = "https://penstock.github.io/penstock/problems/"


class _Limit:
    """What both kinds share. ``key`` returns the key of a request, or None to let it pass without asking.

    A request waits up to ``wait`` until the rule allows it. If the server has not answered ``timeout`` after that,
    ``on_error`` decides.
    """

    def __init__(
        self, app: Any, client: Any, rule: str, key: Callable[[Any], Optional[str]], *, cost: int = 1,
        wait: Optional[Span] = None, timeout: Seconds = 2.0, on_error: str = "allow",
    ) -> None:
        if on_error not in ("allow", "refuse"):
            raise Invalid("must be allow or refuse", "on_error")
        self.app, self.client, self.rule, self.key, self.on_error = app, client, rule, key, on_error
        self.timeout = seconds(timeout)
        self.asking: Dict[str, Any] = {"cost": cost, "wait": wait, "timeout": self.timeout + waits(wait or 0)}

    def failed(self, error: PenstockError) -> Optional[Tuple[int, Headers, bytes]]:
        """Return the answer for a request about which the server could not be asked, None to let it pass."""
        self.client.core.report("rule_unavailable", rule=self.rule, error=error)
        if self.on_error == "allow":
            return None
        return _problem(503, "unavailable", "The rate limit cannot be checked.", [("Retry-After", "1")])

    def refusal(self, taken: Taken) -> Tuple[int, Headers, bytes]:
        """Return the answer for a request that the rule refuses."""
        fields = [("Retry-After", str(max(1, math.ceil(taken.retry_after)))), *taken.headers.items()]
        return _problem(429, "limit_reached", f"The rule {self.rule} refuses this request.", fields)


def _problem(status: int, reason: str, detail: str, fields: Headers) -> Tuple[int, Headers, bytes]:
    title = "Too Many Requests" if status == 429 else "Service Unavailable"
    problem = {"type": PROBLEMS + reason, "title": title, "status": status, "reason": reason, "detail": detail}
    body = json.dumps(problem).encode()
    return status, [("Content-Type", "application/problem+json"), ("Content-Length", str(len(body))), *fields], body


class WSGILimit(_Limit):
    """Limits a WSGI application: ``app = WSGILimit(app, client, "per-user", lambda environ: ...)``."""

    client: Penstock

    def __call__(self, environ: Dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        key = self.key(environ)
        if key is None:
            return self.app(environ, start_response)  # type: ignore[no-any-return]
        taken, answer = None, None
        try:
            taken = self.client.take(self.rule, key, **self.asking)
            answer = None if taken.allowed else self.refusal(taken)
        except PenstockError as error:
            answer = self.failed(error)
        if answer is not None:
            status, headers, body = answer
            start_response(f"{status} {'Too Many Requests' if status == 429 else 'Service Unavailable'}", headers)
            return [body]
        fields = list(taken.headers.items()) if taken else []

        def start(status: str, headers: Headers, *more: Any) -> Any:
            return start_response(status, headers + fields, *more)

        if taken is None or taken.lease is None:
            return self.app(environ, start)  # type: ignore[no-any-return]
        return self._leased(environ, start, key, taken.lease)

    def _leased(self, environ: Dict[str, Any], start: Any, key: str, lease: str) -> Iterable[bytes]:
        """Run a request that holds a place of a concurrency rule, and give the place back."""
        parts: Any = ()
        try:
            parts = self.app(environ, start)
            yield from parts
        finally:
            getattr(parts, "close", lambda: None)()
            try:
                self.client.refund(self.rule, key, lease=lease, timeout=self.timeout)
            except PenstockError as error:
                self.client.core.report("refund_failed", rule=self.rule, error=error)


class ASGILimit(_Limit):
    """Limits the HTTP requests of an ASGI application. ``key`` gets the scope."""

    client: AsyncPenstock

    async def __call__(self, scope: Dict[str, Any], receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        key = self.key(scope) if scope["type"] == "http" else None
        if key is None:
            return await self.app(scope, receive, send)  # type: ignore[no-any-return]
        taken, answer = None, None
        try:
            taken = await self.client.take(self.rule, key, **self.asking)
            answer = None if taken.allowed else self.refusal(taken)
        except PenstockError as error:
            answer = self.failed(error)
        if answer is not None:
            status, headers, body = answer
            await send({"type": "http.response.start", "status": status, "headers": _raw(headers)})
            await send({"type": "http.response.body", "body": body})
            return
        fields = _raw(taken.headers.items()) if taken else []

        async def with_fields(message: Dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *fields]}
            await send(message)

        try:
            await self.app(scope, receive, with_fields)
        finally:
            if taken is not None and taken.lease is not None:
                try:
                    await self.client.refund(self.rule, key, lease=taken.lease, timeout=self.timeout)
                except PenstockError as error:
                    self.client.core.report("refund_failed", rule=self.rule, error=error)


def _raw(headers: Iterable[Tuple[str, str]]) -> List[Tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
