"""Which jobs of a stream wait, are under way, and come again. Nothing here reads or writes."""
from __future__ import annotations

import heapq
import json
import time
from collections import deque
from itertools import count
from typing import Any, Callable, Deque, Dict, List, Mapping, Optional, Tuple

from ._jobs import Appended, encode_job
from ._retry import BUSY, backoff, refused
from .errors import Invalid, PenstockError, Refused, Unreachable

MAX_JOBS, MAX_BYTES, STREAM_REQUESTS = 1000, 1_000_000, 2
GATHER = 0.005  # how long jobs are collected for a request

# These end the stream at a line, which was not executed or whose outcome is unknown. They do not refuse its job.
BREAKS = frozenset({"stopping", "body_incomplete", "body_timeout", "outcome_unknown", "auth_unavailable"})


class Entry:
    __slots__ = ("id", "line", "index", "since", "failures")

    def __init__(self, id: str, line: bytes, index: int) -> None:
        self.id, self.line, self.index, self.since, self.failures = id, line, index, time.monotonic(), 0


class Chunk:
    """The jobs of one request, and what was answered about them."""

    def __init__(self, entries: List[Entry]) -> None:
        self.entries = entries
        self.body = b"\n".join([e.line for e in entries]) + b"\n"
        self.answers: Dict[int, Mapping[str, Any]] = {}
        self.broken: Optional[PenstockError] = None
        self._rest = b""

    def feed(self, part: bytes) -> None:
        """Read a part of the answer. A line without an end is ignored: the stream broke in it."""
        whole, _, self._rest = (self._rest + part).rpartition(b"\n")
        try:
            answers = json.loads(b"[" + b",".join(filter(bytes.strip, whole.split(b"\n"))) + b"]")
            for answer in answers:
                number = answer["line"] - 1
                if answer.get("reason") in BREAKS or answer["status"] == 401:
                    self.broken = refused(answer["status"], answer, {})
                elif 0 <= number < len(self.entries):
                    self.answers.setdefault(number, answer)
        except (ValueError, TypeError, KeyError) as error:
            raise Unreachable(f"a line of the answer cannot be read: {error!r}") from error


class Stream:
    """The state of one append_stream."""

    def __init__(
        self, in_flight: int, retry_for: float, break_for: float, renew: Callable[[], bool], eager: bool
    ) -> None:
        if in_flight < 1:
            raise Invalid("must be at least 1", "in_flight")
        self.limit, self.retry_for, self.break_for = in_flight, retry_for, break_for
        self.requests = STREAM_REQUESTS if eager else 1  # at a time; the jobs of a list wait in its order
        self.most = max(1, min(MAX_JOBS, in_flight // self.requests))  # so that one request is filled while one is sent
        self.renew = renew  # forgets the token, and returns whether another one can be had
        self.eager = eager  # whether few jobs are sent, if no more come soon
        self.held = 0  # jobs without a result
        self.taken = 0  # jobs from the source
        self.ended = False  # the source has no more jobs
        self.whole_error: Optional[PenstockError] = None  # the last error that was not about a single job
        self.results: Deque[Appended] = deque()
        self._ready: Deque[Entry] = deque()
        self._bytes = 0
        self._later: List[Tuple[float, int, Entry]] = []
        self._number = count()
        self._now = 0.0  # of the answer that is being settled

    @property
    def room(self) -> bool:
        return self.held + len(self.results) < self.limit

    @property
    def finished(self) -> bool:
        return self.ended and self.held == 0 and not self.results

    def add(self, job: Mapping[str, Any]) -> None:
        """Take a job from the source. A job that cannot be sent gets its result at once."""
        index, self.taken = self.taken, self.taken + 1
        try:
            id, line = encode_job(job, one_line=True)
        except Invalid as error:
            id = job.get("id") if isinstance(job, Mapping) else None
            self.results.append(Appended(id if isinstance(id, str) else "", {}, error, index=index))
            return
        self.held += 1
        self._put(Entry(id, line, index))

    def _put(self, entry: Entry) -> None:
        self._ready.append(entry)
        self._bytes += len(entry.line) + 1

    def next_chunk(self, under_way: int) -> Optional[Chunk]:
        """Return the next request, or None if more jobs should come first."""
        now = time.monotonic()
        while self._later and self._later[0][0] <= now:
            self._put(heapq.heappop(self._later)[2])
        if under_way >= self.requests or not self._ready:
            return None
        full = len(self._ready) >= self.most or self._bytes >= MAX_BYTES
        early = self.eager and now - self._ready[0].since >= GATHER
        if not (full or early or self.ended or not self.room):
            return None
        entries, size = [], 0
        while self._ready and len(entries) < self.most:
            size += len(self._ready[0].line) + 1
            if entries and size > MAX_BYTES:
                break
            entries.append(self._ready.popleft())
        self._bytes -= sum([len(e.line) + 1 for e in entries])
        return Chunk(entries)

    def pause(self, under_way: int) -> Optional[float]:
        """Return the time until next_chunk may have more to send, None if that needs an answer or another job."""
        now = time.monotonic()
        times = [self._later[0][0] - now] if self._later else []
        if self._ready and self.eager and under_way < self.requests:
            times.append(self._ready[0].since + GATHER - now)
        return max(0.0, min(times)) if times else None

    def settle(self, chunk: Chunk, error: Optional[PenstockError]) -> None:
        """Turn the answers of a chunk into results. The other jobs are sent again, or fail with the error."""
        error = error or chunk.broken or Unreachable("the answer ended before all jobs were answered")
        self._now = time.monotonic()
        pause = backoff(chunk.entries[0].failures + 1)  # the same for all, so that they come again together
        for number, entry in enumerate(chunk.entries):
            answer = chunk.answers.get(number)
            if answer is None:
                self._missed(entry, error, pause)
                continue
            status = answer.get("status", 0)
            if 200 <= status < 300:
                self._done(Appended(entry.id, answer, None, status == 200, entry.index))
                continue
            problem = refused(status, answer, {})
            problem.id = entry.id
            if status not in (429, 503) or not self._again(entry, problem, pause):
                self._done(Appended(entry.id, answer, problem, index=entry.index))

    def _missed(self, entry: Entry, error: PenstockError, pause: float) -> None:
        """Decide about a job of a request that failed as a whole, or broke off."""
        transient = not isinstance(error, Refused) or error.reason in BREAKS or error.status in (429, 502, 503, 504)
        if isinstance(error, Refused) and error.status == 401 and entry.failures == 0:
            transient, pause = self.renew(), 0.0
        if not transient or not self._again(entry, error, pause):
            self.whole_error = error
            self._done(Appended(entry.id, getattr(error, "raw", {}), error, index=entry.index))

    def _again(self, entry: Entry, error: PenstockError, pause: float) -> bool:
        """Send a job again later, unless its time is over."""
        full = isinstance(error, Refused) and error.status == 429 and error.reason not in BUSY
        entry.failures += 1
        due = self._now + (getattr(error, "retry_after", None) or pause)
        if due - entry.since > (self.retry_for if full else self.break_for):
            return False
        heapq.heappush(self._later, (due, next(self._number), entry))
        return True

    def _done(self, result: Appended) -> None:
        self.held -= 1
        self.results.append(result)

    def in_order(self, results: List[Appended]) -> List[Appended]:
        """Return the results in the order of the source. Raises the error that all jobs have in common."""
        if results and self.whole_error is not None and all(r.error is self.whole_error for r in results):
            raise self.whole_error
        return sorted(results, key=lambda result: result.index)
