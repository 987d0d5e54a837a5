"""Conversions between Python's values and those of the HTTP API."""
from __future__ import annotations

import math
import re
from datetime import datetime, timedelta, timezone
from typing import Dict, Iterable, Mapping, Optional, Union
from urllib.parse import quote

from .errors import Invalid

Seconds = Union[int, float, timedelta]
Span = Union[Seconds, str]
MAX_COST = 1_000_000_000

_INSTANT = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))$")


def seconds(value: Seconds) -> float:
    """Return a time span in seconds."""
    return value.total_seconds() if isinstance(value, timedelta) else float(value)


def span(value: Span, field: str = "") -> str:
    """Return a time span as the API reads it. A text such as "30s" passes unchanged."""
    if isinstance(value, str):
        return value
    number = seconds(value)
    if not math.isfinite(number):
        raise Invalid(f"{value!r} is not a time span", field)
    return f"{round(number * 1000)}ms"


def amounts(value: Mapping[str, int], field: str, units: Optional[Iterable[str]] = None) -> Dict[str, int]:
    """Return costs by unit that may be sent. ``units`` are the only ones that count."""
    if not isinstance(value, Mapping):
        raise Invalid('must be a mapping of numbers by unit, such as {"tokens": 1800}', field)
    for unit, n in value.items():
        if isinstance(n, bool) or not isinstance(n, int) or not 0 <= n <= MAX_COST:
            raise Invalid(f"is {n!r}, must be a whole number from 0 to {MAX_COST}", f"{field}.{unit}")
        if units is not None and unit not in units:
            counted = ", ".join(sorted(units)) or "none"
            raise Invalid(f"no limit of the queue counts this unit; it counts {counted}", f"{field}.{unit}")
    return dict(value)


def instant(value: Union[str, datetime], field: str) -> str:
    """Return an instant as RFC 3339. A text passes unchanged."""
    if isinstance(value, str):
        return value
    if value.tzinfo is None:
        raise Invalid(f"{value} has no time zone", field)
    return value.isoformat()


def moment(text: str) -> datetime:
    """Read an instant of RFC 3339, which may have nanoseconds."""
    match = _INSTANT.match(text)
    if match is None:
        raise ValueError(f"{text!r} is not an instant of RFC 3339")
    day, clock, fraction, sign, hours, minutes = match.groups()
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    zone = timezone(-offset if sign == "-" else offset)
    whole = datetime.fromisoformat(f"{day}T{clock}").replace(tzinfo=zone)
    return whole.replace(microsecond=int((fraction or "0")[:6].ljust(6, "0")))


def path(*parts: str) -> str:
    """Return the path of names in the API."""
    return "/v1" + escaped(*parts)


def escaped(*parts: str) -> str:
    """Return the path of names, each escaped."""
    for part in parts:
        if not isinstance(part, str) or part in ("", ".", ".."):
            raise Invalid(f"{part!r} is not a name")
    try:
        return "".join("/" + quote(part, safe="") for part in parts)
    except UnicodeEncodeError:
        raise Invalid(f"{parts[-1]!r} is not valid Unicode") from None


def clip(reason: str) -> str:
    """Cut a reason to the 512 bytes that the API accepts."""
    raw = reason.encode("utf-8", "replace")
    return raw.decode("utf-8") if len(raw) <= 512 else raw[:509].decode("utf-8", "ignore") + "..."
