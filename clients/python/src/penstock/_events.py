"""Server-sent events."""
from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Dict, List, Optional

from ._core import Core
from ._retry import MAX_TRIES, backoff, refused
from ._units import path
from .errors import PenstockError, Refused, Unreachable

SILENCE = 45.0  # an idle stream has a sign of life every 15 s


@dataclass(frozen=True)
class Event:
    """A change of a queue, or the state of all (``reset``) or some (``info``) queues of the stream."""

    kind: str
    id: str
    data: Any


class EventStream:
    """Reads the lines of a stream, and remembers where to continue."""

    def __init__(self, core: Core, queue: Optional[str], after: str) -> None:
        self.core, self.queue, self.last, self.failures = core, queue, after, 0
        self.began = False
        self.path = path("queues", queue, "events") if queue else path("events")
        self._begin()

    def _begin(self) -> None:
        self._kind, self._id, self._data = "", "", []  # type: str, str, List[str]

    def headers(self) -> Dict[str, str]:
        self._begin()
        more = {"Last-Event-ID": self.last} if self.last else {}
        return {"Accept": "text/event-stream", "Cache-Control": "no-store", **more}

    def feed(self, line: bytes) -> Optional[Event]:
        """Read a line. Returns the event that it completes; raises the problem with which the server ends."""
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        if text:
            name, _, value = text.partition(":")
            value = value[1:] if value.startswith(" ") else value
            if name == "event":
                self._kind = value
            elif name == "id":
                self._id = value
            elif name == "data":
                self._data.append(value)
            return None
        kind, id, data = self._kind, self._id, "\n".join(self._data)
        self._begin()
        if not kind:
            return None
        try:
            value = json.loads(data) if data else None
        except ValueError:
            value = data
        if kind == "end":
            problem = value if isinstance(value, dict) else {}
            raise refused(int(problem.get("status") or 503), problem, {})
        self.failures, self.began = 0, True
        self.last = id or self.last
        return Event(kind, id, value)

    def pause(self, error: Optional[PenstockError]) -> float:
        """Return the pause before the stream is opened again. Raises an error that a repetition cannot cure."""
        if isinstance(error, Refused):
            renewed = error.status == 401 and self.core.tokens.renewable and self.failures == 0
            if error.status not in (429, 502, 503, 504) and not renewed:
                raise error
            self.core.tokens.forget()
        self.failures += 1
        if not self.began and self.failures >= MAX_TRIES:
            raise error or Unreachable("the stream of events ended at once")
        self.core.report("reconnect", queue=self.queue, error=error, attempt=self.failures)
        return max(getattr(error, "retry_after", None) or 0.0, backoff(self.failures))
