"""What paced calls of both clients share."""
from __future__ import annotations

from typing import Any, Optional, Tuple

from ._answers import waits
from ._retry import header_seconds
from .outcomes import Outcome

UNNAMED = 1.0  # the pause if the provider asks for one without a time


def status_of(response: Any) -> Optional[int]:
    """Return the status of a response, or of an error that is one, of any library."""
    statuses = [getattr(response, name, None) for name in ("status", "status_code", "code")]
    return next((s for s in statuses if isinstance(s, int)), None)


def asked_to_pause(response: Any) -> Optional[float]:
    """Return the seconds that a provider asks for: a 429, by default 1 s, or a 503 with Retry-After.

    The response, or the error, may be of urllib, http.client, requests, httpx or aiohttp.
    """
    status = status_of(response)
    if status is None and getattr(response, "response", None) is not None:  # an error that has a response
        return asked_to_pause(response.response)
    headers = getattr(response, "headers", None)
    if status not in (429, 503):
        return None
    after = None if headers is None else header_seconds(headers.get("Retry-After"), headers.get("Date"))
    return after or (UNNAMED if status == 429 else None)


def throttled_by(error: Optional[BaseException]) -> Optional[Tuple[Any, str]]:
    """Return the after and reason with which a turn's block was left, if it raised ``throttled(...)``."""
    if isinstance(error, Outcome) and error.outcome == "throttled":
        after = error.fields["after"]
        return after if waits(after) else UNNAMED, error.fields.get("reason", "")
    return None
