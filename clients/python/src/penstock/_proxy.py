"""The header fields of calls through the proxy, and the refusals among its answers."""
from __future__ import annotations

import inspect
from typing import Any, Dict, Mapping, Optional

from ._pacing import status_of
from ._retry import refusal
from ._units import Span, span
from .errors import Invalid, Refused


def proxy_headers(
    *, lane: Optional[str] = None, cost: Optional[int] = None, costs: Optional[Mapping[str, int]] = None,
    priority: Optional[int] = None, wait: Optional[Span] = None, retry: Optional[str] = None,
) -> Dict[str, str]:
    """Return the header fields that give the options of a call to the proxy. The server checks their values.

    ``costs`` is what the call will use of other units, such as ``{"tokens": 1800}``, by default the queue's estimate.
    ``wait`` is the maximum wait for a turn, by default 30 s. ``retry="throttled"`` waits for another turn when the
    receiver answers that there are too many requests.
    """
    if lane is not None and not all(" " <= c <= "~" for c in lane):
        raise Invalid("must be ASCII in a header, because libraries differ in how they send other text", "lane")
    fields = {
        "Penstock-Lane": lane, "Penstock-Cost": cost, "Penstock-Priority": priority,
        "Penstock-Costs": None if costs is None else ", ".join(f"{unit}={n}" for unit, n in costs.items()),
        "Penstock-Wait": None if wait is None else span(wait, "wait"), "Penstock-Retry": retry,
    }
    return {name: str(value) for name, value in fields.items() if value is not None}


def problem_of(answer: Any, body: Optional[bytes] = None) -> Optional[Refused]:
    """Return the refusal if Penstock refused a call through the proxy, such as one with the reason ``no_turn``.

    Return None for an answer of the receiver, whatever the status. ``answer`` is a response of requests, httpx, urllib
    or http.client, or an error that has one, such as those of openai and anthropic. Only the body of a refusal is read.
    For a response whose body must be awaited, such as aiohttp's, give the ``body``.
    """
    if getattr(answer, "response", None) is not None:
        answer = answer.response
    status, headers = status_of(answer), _fields(getattr(answer, "headers", None) or {})
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if status is None or kind != "application/problem+json" or _passed_on(headers):
        return None
    found = refusal(status, headers, _read(answer) if body is None else body)
    return None if found.reason == "http_error" else found


def _fields(headers: Mapping[str, str]) -> Dict[str, str]:
    """Return header fields by their names in lower case. A field may occur more than once."""
    fields: Dict[str, str] = {}
    for name, value in headers.items():
        name = name.lower()
        fields[name] = f"{fields[name]}, {value}" if name in fields else value
    return fields


def _passed_on(fields: Mapping[str, str]) -> bool:
    """Return whether an answer came from the receiver: the proxy adds its metric then, and never to its refusals."""
    metrics = fields.get("server-timing", "").split(",")
    return any(metric.partition(";")[0].strip() == "penstock" for metric in metrics)


def _read(answer: Any) -> bytes:
    try:
        content = getattr(answer, "content", None)
    except RuntimeError:  # a stream of httpx that is not read yet, or one of requests that was consumed
        content = None
    if isinstance(content, bytes):
        return content
    read = getattr(answer, "read", None)
    if read is None:
        return b""
    if inspect.iscoroutinefunction(read):
        raise Invalid("must be given for a response whose body is awaited: await response.read()", "body")
    return bytes(read())
