"""The retry policy: one function for all calls."""
from __future__ import annotations

import json
import random
import time
from email.utils import parsedate_to_datetime
from typing import Any, Mapping, Optional

from .errors import PenstockError, Refused, TimedOut, Unreachable

MAX_TRIES = 5
MAX_PAUSE = 10.0
FIRST_PAUSE = 0.1

# A 429 with another reason is an answer about the job or key, so a repetition is the caller's decision.
BUSY = frozenset({"crowded", "over_share", "app_limit"})


def backoff(failures: int) -> float:
    """Return a random pause after a number of failures, which is at least 1."""
    return random.uniform(0, min(MAX_PAUSE, FIRST_PAUSE * 2 ** min(failures - 1, 20)))


def pause_before_retry(error: PenstockError, failures: int, repeatable: bool) -> Optional[float]:
    """Return the pause before the next try, or None if there must not be one."""
    if not repeatable or failures >= MAX_TRIES or isinstance(error, TimedOut):
        return None
    if isinstance(error, Refused):
        if error.status not in (502, 503, 504) and not (error.status == 429 and error.reason in BUSY):
            return None
        return max(error.retry_after or 0.0, backoff(failures))
    return backoff(failures) if isinstance(error, Unreachable) else None


def retry_after(body: Mapping[str, Any], headers: Mapping[str, str]) -> Optional[float]:
    """Return the seconds after which the server allows a retry: by the body, else by the header."""
    ms = body.get("retry_after_ms")
    if isinstance(ms, (int, float)) and not isinstance(ms, bool):
        return max(0.0, ms / 1000)
    return header_seconds(headers.get("retry-after"), headers.get("date"))


def header_seconds(text: Optional[str], date: Optional[str] = None) -> Optional[float]:
    """Read Retry-After, which is a number of seconds or an HTTP date. ``date`` is the Date header beside it."""
    text = (text or "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:12])
    until = http_date(text)
    return None if until is None else max(0.0, until - (http_date(date) or time.time()))


def http_date(text: Optional[str]) -> Optional[float]:
    """Return an HTTP date in seconds since 1970, or None if it is not valid."""
    try:
        return parsedate_to_datetime(text or "").timestamp()
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


def refusal(status: int, headers: Mapping[str, str], body: bytes) -> Refused:
    """Return the error for an answer that is not a success."""
    try:
        raw = json.loads(body)
    except ValueError:
        raw = None
    if not isinstance(raw, dict) or not any(raw.get(name) for name in ("reason", "detail", "title")):
        raw = {"detail": body[:200].decode("utf-8", "replace").strip()}
    return refused(status, raw, headers)


def refused(status: int, raw: Mapping[str, Any], headers: Mapping[str, str]) -> Refused:
    """Return the error for the fields of a refusal."""
    return Refused(
        status, str(raw.get("reason") or "http_error"), str(raw.get("detail") or raw.get("title") or ""),
        str(raw.get("field") or ""), str(raw.get("id") or ""), retry_after(raw, headers), raw, headers,
    )
