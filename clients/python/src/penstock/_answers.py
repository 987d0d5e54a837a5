"""The answers of rules, and how arguments and answers of other calls are read."""
from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Any, Dict, Iterable, Mapping, Optional, Tuple

from ._core import Answer
from ._retry import http_date
from ._units import Span, moment, seconds
from .errors import Invalid

ENDED = frozenset({"delivered", "dead", "cancelled", "expired"})
FIELDS = ("RateLimit-Policy", "RateLimit")


@dataclass(frozen=True)
class Taken:
    """The answer of a rule. Times are in seconds. ``headers`` has the RateLimit fields of the answer.

    With a unit, ``take`` identifies the take for ``correct``, within 15 minutes.
    """

    allowed: bool
    limit: int
    remaining: int
    retry_after: float
    reset_after: float
    receipt: Optional[str]
    lease: Optional[str]
    headers: Mapping[str, str]
    raw: Mapping[str, Any]
    take: Optional[str] = None


def taken(raw: Mapping[str, Any], headers: Mapping[str, str], after: Optional[float] = None) -> Taken:
    """Return the answer of a rule. After a refusal, ``after`` is the time until a retry may pass."""
    return Taken(
        bool(raw.get("allowed")), raw.get("limit", 0), raw.get("remaining", 0),
        raw.get("retry_after_ms", 0) / 1000 if after is None else after, raw.get("reset_after_ms", 0) / 1000,
        raw.get("receipt"), raw.get("lease"),
        {name: headers[name.lower()] for name in FIELDS if name.lower() in headers}, raw, raw.get("take"),
    )


def named(specs: Any) -> Iterable[Tuple[str, Mapping[str, Any]]]:
    """Return names and specs, of a list of specs with names or a mapping of names to specs."""
    if isinstance(specs, Mapping):
        return list(specs.items())
    if not all(isinstance(spec, Mapping) and spec.get("name") for spec in specs):
        raise Invalid("each spec needs a name", "specs")
    return [(spec["name"], {k: v for k, v in spec.items() if k != "name"}) for spec in specs]


def revision(if_match: Any) -> Dict[str, str]:
    text = str(if_match).strip('"')
    return {} if if_match is None else {"If-Match": text if text == "*" else f'"{text}"'}


_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def waits(wait: Span) -> float:
    """Return in seconds how long the server may wait."""
    if not isinstance(wait, str):
        return seconds(wait)
    parts = re.findall(r"([0-9.]+)(ms|us|µs|ns|h|m|s)", wait)
    try:
        return sum(float(number) * _UNITS[unit] for number, unit in parts)
    except ValueError:
        return 0.0  # the server refuses it


def until(job: Mapping[str, Any], answer: Answer) -> float:
    """Return the seconds until a job's eta, by the server's clock if the answer has its time."""
    eta = job.get("eta")
    if not eta:
        return 0.0
    return moment(eta["at"]).timestamp() - (http_date(answer.headers.get("date")) or time.time())
