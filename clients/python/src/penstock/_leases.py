"""The leases of a worker: when to extend them, and what to settle. Nothing here reads or writes."""
from __future__ import annotations

import asyncio
import base64
import threading
import time
from datetime import datetime
from typing import Any, Callable, Dict, List, Mapping, Optional

from ._jobs import elements, members
from ._units import moment
from .errors import Invalid, Unreachable
from .outcomes import Outcome, delivered


class Job:
    """A leased job.

    ``raw`` has all its fields; ``payload_text`` is the payload as it was appended. ``lost`` is set when the work
    should stop: the lease was lost, or the worker gave up.
    """

    def __init__(self, raw: Dict[str, Any], text: str = "{}") -> None:
        self.raw, self._text = raw, text
        self.id: str = raw["id"]
        self.payload: Any = raw.get("payload")
        self.lost = threading.Event()
        self._settle: Optional[Callable[[Outcome], None]] = None
        self._actual: Optional[Dict[str, int]] = None

    @property
    def payload_text(self) -> Optional[str]:
        found = members(self._text).get("payload")
        return found[1] if found else None

    @property
    def payload_bytes(self) -> bytes:
        text = self.raw.get("payload_base64")
        return base64.b64decode(text) if text is not None else (self.payload_text or "").encode("utf-8")

    @property
    def headers(self) -> Dict[str, str]:
        return self.raw.get("headers") or {}

    @property
    def lane(self) -> str:
        return str(self.raw.get("lane", ""))

    @property
    def attempt(self) -> int:
        return int(self.raw["attempt"])

    @property
    def expires_at(self) -> datetime:
        return moment(self.raw["expires_at"])

    @property
    def costs(self) -> Dict[str, int]:
        """What is charged for the job in units such as tokens."""
        return self.raw.get("costs") or {}

    def report_actual(self, costs: Mapping[str, int]) -> None:
        """Record what the job has used, by unit, such as ``{"tokens": 1432}``.

        It replaces what was charged at the departure, however the job ends. The last report counts. What the server
        refuses is reported as settle_failed, and not charged.
        """
        self._actual = dict(costs)

    def settle(self, outcome: Optional[Outcome] = None) -> None:
        """Settle the job before the handler ends; by default it is delivered. A second call raises Invalid."""
        if self._settle is None:
            raise Invalid(f"job {self.id!r} is settled or lost already")
        settle, self._settle = self._settle, None
        settle(outcome or delivered())


def read_jobs(body: bytes) -> List[Job]:
    """Read the answer to a request for jobs."""
    try:
        _, text = members(body.decode("utf-8"))["jobs"]
        return [Job(raw, text) for raw, text in elements(text)]
    except (ValueError, KeyError, IndexError, TypeError, RecursionError) as error:
        raise Unreachable(f"the answer has no jobs: {error!r}") from error


class Lease:
    """The lease of one job."""

    def __init__(self, job: Job, now: float) -> None:
        self.job = job
        self.length = job.raw.get("expires_in_ms", 0) / 1000
        self.expires = now + self.length
        self.due = now + self.length / 3
        self.started = now
        self.task: Optional["asyncio.Future[Any]"] = None
        self.outcome: Optional[Outcome] = None
        self.in_thread = False  # its handler is a plain function, which cannot be cancelled
        self.failed = False  # a settlement was tried
        self.actual: Optional[Dict[str, int]] = None  # what the job had used when it was settled

    @property
    def wire(self) -> Dict[str, str]:
        return {"id": self.job.id, "lease": self.job.raw["lease"]}

    def extended(self, asked: float, left: float) -> None:
        """Note an extension: the time left counts from before the request."""
        self.expires = asked + left
        self.due = asked + min(self.length, left) / 3

    def later(self, now: float, pause: Optional[float] = None) -> None:
        """Ask again after a failure, before the lease runs out."""
        self.due = now + max(0.05, min(pause or 1.0, self.length / 10))

    def over(self) -> bool:
        return time.monotonic() > self.expires
