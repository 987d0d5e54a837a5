"""The calls of the blocking client. Made by generate_sync.py from _calls.py: do not edit."""
from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional
from urllib.parse import urlencode

from . import _types as t
from ._answers import ENDED, Taken, named, revision, taken, until, waits
from ._core import Answer, Call, CallOptions, Core, Send, encode
from ._events import SILENCE, Event, EventStream
from ._jobs import Appended, encode_job
from ._pacing import asked_to_pause, throttled_by
from ._retry import pause_before_retry, refusal
from ._units import Span, amounts, clip, escaped, instant, path, seconds, span
from .errors import Invalid, PenstockError, Refused, TimedOut, Unreachable

if TYPE_CHECKING:
    from typing_extensions import Unpack

REPORTING = 5.0  # seconds for a report of what a call used


class Calls:
    """All calls, over the few methods that know how to read, write and wait."""

    core: Core

    def _send(self, request: Send) -> Answer:
        raise NotImplementedError

    def _sleep(self, pause: float, cancel: Any) -> None:
        raise NotImplementedError

    def _resolve(self, value: Any) -> Any:
        raise NotImplementedError

    def _urlopen(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def _lines(self, request: Send, silence: float) -> Iterator[bytes]:
        raise NotImplementedError

    def _token(self) -> Optional[str]:
        """Return the token for the next request."""
        asked = self.core.tokens.asks
        try:
            token = self.core.tokens.get()
            return self.core.tokens.learn(self._resolve(token)) if asked else token
        except PenstockError:
            raise
        except Exception as error:
            raise Invalid(f"the callback failed: {error!r}", "token") from error

    def _call(self, c: Call, o: CallOptions) -> Answer:
        """Send a request until it is answered, as often as the retry policy allows."""
        timeout = o.get("timeout", c.timeout)
        deadline = time.monotonic() + (self.core.timeout + c.extra if timeout is None else seconds(timeout))
        body = None if c.body is None else c.body if isinstance(c.body, bytes) else encode(c.body)
        extra = dict(c.headers) if body is None else {"Content-Type": "application/json", **c.headers}
        failures, renewed, cancel = 0, False, o.get("cancel")
        while True:
            headers = self.core.headers(self._token(), extra, o.get("traceparent"))
            error: PenstockError
            try:
                answer = self._send(Send(c.method, c.path, headers, body, deadline - time.monotonic(), cancel))
                if 200 <= answer.status < 300:
                    answer.value = {} if answer.status == 204 else c.parse(answer.body)
                    return answer
                error = refusal(answer.status, answer.headers, answer.body)
            except Unreachable as problem:
                error = problem
            if isinstance(error, Refused) and error.status == 401 and self.core.tokens.renewable and not renewed:
                renewed = True
                self.core.tokens.forget()
                continue
            failures += 1
            pause = pause_before_retry(error, failures, c.repeatable)
            if pause is None or time.monotonic() + pause >= deadline:
                raise error
            self.core.report("retry", queue=c.queue, error=error, attempt=failures, pause=pause)
            self._sleep(pause, cancel)

    def _of_queue(
        self, method: str, queue: str, *parts: str, o: CallOptions, body: Any = None, query: Any = (),
        extra: float = 0.0,
    ) -> Any:
        """Call a path of a queue. All of these calls are idempotent."""
        at = path("queues", queue, *parts) + (f"?{urlencode(query, doseq=True)}" if query else "")
        return (self._call(Call(method, at, body, queue=queue, extra=extra), o)).value

    # Jobs

    def append(self, queue: str, job: Mapping[str, Any], **o: "Unpack[CallOptions]") -> Appended:
        """Append a job. Without an id it gets a random one, so that retries are safe."""
        id, body = encode_job(job)
        answer = self._call(Call("POST", path("queues", queue, "jobs"), body, queue=queue), o)
        return Appended(id, answer.value, None, answer.status == 200)

    def get(self, queue: str, id: str, **o: "Unpack[CallOptions]") -> t.JobInfo:
        """Return a job."""
        return self._of_queue("GET", queue, "jobs", id, o=o)

    def list(
        self, queue: str, state: str, *, lane: Optional[str] = None, reason: Optional[str] = None, before: Any = None,
        since: Any = None, payload: Optional[bool] = None, limit: Optional[int] = None, **o: "Unpack[CallOptions]",
    ) -> Iterator[t.JobInfo]:
        """Iterate over the jobs of a state. ``limit`` is the size of a page."""
        query: Dict[str, Any] = {
            "state": state, "lane": lane, "reason": reason, "before": before, "since": since, "payload": payload,
            "limit": limit,
        }
        query = {k: instant(v, k) if isinstance(v, datetime) else v for k, v in query.items() if v is not None}
        query = {k: str(v).lower() if isinstance(v, bool) else v for k, v in query.items()}
        while True:
            answer = self._of_queue("GET", queue, "jobs", o=o, query=query)
            for job in answer.get("jobs") or []:
                yield job
            after = answer.get("next")
            if not after or after == query.get("after"):
                return
            query["after"] = after

    def cancel(self, queue: str, id: str, **o: "Unpack[CallOptions]") -> t.Cancelled:
        """Cancel a job that has not left."""
        try:
            return self._of_queue("POST", queue, "jobs", id, "cancel", o=o)
        except Refused as error:  # an earlier try, whose answer was lost, may have cancelled it
            if error.reason == "not_cancellable" and error.raw.get("state") == "cancelled":
                return {"queue": queue, "id": id, "state": "cancelled"}
            raise

    def wait(self, queue: str, id: str, **o: "Unpack[CallOptions]") -> t.JobInfo:
        """Wait until a job has ended or is held. Without ``timeout`` for any time; TimedOut when it is over."""
        timeout = o.get("timeout")
        deadline = None if timeout is None else time.monotonic() + seconds(timeout)
        pause, job = 0.1, {}
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise TimedOut(f"job {id!r} is still {job.get('state', 'unknown')}")
            each: CallOptions = {**o, "timeout": self.core.timeout if left is None else min(left, self.core.timeout)}
            answer = self._call(Call("GET", path("queues", queue, "jobs", id), queue=queue), each)
            job = answer.value
            if job.get("state") in ENDED or job.get("state") == "held":
                return job
            away = until(job, answer)
            sleep = min(away + 0.1, 5.0) if away > pause else pause
            pause = 0.1 if away > pause else min(pause * 2, 5.0)
            if deadline is not None:
                sleep = min(sleep, deadline - time.monotonic())
            self._sleep(max(sleep, 0.0), o.get("cancel"))

    # Paced calls

    def _turn(
        self, queue: str, wait: Span, costs: Optional[Mapping[str, int]], report_within: Optional[Span], o: CallOptions
    ) -> Dict[str, Any]:
        body: Dict[str, Any] = {"wait": span(wait, "wait")}
        if costs is not None:
            body["costs"] = amounts(costs, "costs")
        if report_within is not None:
            body["report_within"] = span(report_within, "report_within")
        return self._of_queue("POST", queue, "turns", o=o, body=body, extra=waits(wait))

    def wait_turn(
        self, queue: str, wait: Span = 30, *, costs: Optional[Mapping[str, int]] = None, **o: "Unpack[CallOptions]"
    ) -> float:
        """Wait for a turn. Returns the seconds waited. A cancelled call gives its place back."""
        return (self._turn(queue, wait, costs, None, o))["waited_ms"] / 1000

    def turn(
        self, queue: str, wait: Span = 30, *, costs: Optional[Mapping[str, int]] = None,
        report_within: Optional[Span] = None, **o: "Unpack[CallOptions]",
    ) -> "Turn":
        """Wait for a turn: ``with client.turn("api") as turn: ...``.

        ``costs`` is what the block will use of units that limits of the queue count, such as ``{"tokens": 1800}``, by
        default the queue's estimate. With ``report_within``, from 1 s to 1 h, the block can take as long as that and
        then call ``turn.report_actual``. Until it ends, the turn has a place in the queue.
        """
        return Turn(self, queue, wait, costs, report_within, o)

    def paced(
        self, queue: str, call: Optional[Callable[..., Any]] = None, wait: Span = 30, *,
        costs: Any = None, actual: Optional[Callable[[Any], Any]] = None, report_within: Span = 600,
        **o: "Unpack[CallOptions]",
    ) -> Callable[..., Any]:
        """Return a function that waits for a turn, then calls ``call``, by default urlopen of urllib.

        If the provider answers 429, or 503 with Retry-After, the queue stops for everyone.

        ``costs`` is what a call will use of units such as ``{"tokens": 1800}``, or a function of the call's arguments
        that returns that. ``actual`` is a function of the call's result that returns what it used, or None if that is
        unknown. If that fails, it is reported to the hook, and what was charged stands.
        """
        call = call or self._urlopen

        def paced(*args: Any, **kwargs: Any) -> Any:
            stated = costs(*args, **kwargs) if callable(costs) else costs
            turn = self._turn(queue, wait, stated, report_within if actual else None, o)
            response, used = None, None  # type: Any, Any
            try:
                response = call(*args, **kwargs)
                used = self._used(queue, actual, response)
                return response
            except Exception as error:
                response = error
                raise
            finally:
                pause = asked_to_pause(response)
                if pause is not None:
                    self._tell(queue, pause, "the provider asked for a pause")
                self._end_turn(queue, turn, used)

        return paced

    def _used(self, queue: str, actual: Optional[Callable[[Any], Any]], response: Any) -> Any:
        """Return what a call used. The caller must get the response in any case."""
        try:
            return self._resolve(actual(response)) if actual else None
        except Exception as error:
            self.core.report("settle_failed", queue=queue, error=error)
            return None

    def _end_turn(self, queue: str, turn: Mapping[str, Any], used: Optional[Mapping[str, int]]) -> None:
        """End a turn that was kept for a report, if need be without the report."""
        if "lease" not in turn:
            return
        job = {"id": turn["id"], "lease": turn["lease"], "outcome": "delivered"}
        try:
            if used is not None:
                job["actual"] = amounts(used, "actual", turn.get("costs") or {})
            answer = self._of_queue("POST", queue, "settle", o={"timeout": REPORTING}, body={"jobs": [job]})
            failed = answer["jobs"][0]
            if "reason" in failed:
                raise Refused(int(failed["status"]), str(failed["reason"]), str(failed.get("detail", "")))
        except PenstockError as error:
            self.core.report("settle_failed", queue=queue, id=turn["id"], error=error)
            if used is not None and (isinstance(error, Invalid) or isinstance(error, Refused) and error.status < 500):
                self._end_turn(queue, turn, None)

    def proxy_url(self, queue: str) -> str:
        """Return the base URL of a queue's pacing proxy, for any HTTP library or SDK.

        The library sends a token of Penstock as its key. Each call waits for its turn in the queue and goes to the
        queue's target. With a Unix socket, the URL is at localhost, for libraries that can use the socket.
        """
        return self.core.address.base + escaped("proxy", queue)

    def throttle(self, queue: str, after: Span, reason: str = "", **o: "Unpack[CallOptions]") -> Dict[str, Any]:
        """Stop a queue for everyone. An older server does not know this call; that is reported to the hook."""
        body = {"after": span(after, "after"), **({"reason": clip(reason)} if reason else {})}
        try:
            return self._of_queue("POST", queue, "throttle", o=o, body=body)
        except Refused as error:
            if error.status != 404 or error.reason == "unknown_queue":
                raise
            self.core.report("throttle_unsupported", queue=queue, error=error)
            return {}

    def _tell(self, queue: str, after: Span, reason: str) -> None:
        """Throttle beside an answer or an error that the caller must get in any case."""
        try:
            self.throttle(queue, after, reason)
        except PenstockError as error:
            self.core.report("throttle_failed", queue=queue, error=error)

    # Rules

    def _ask(self, rule: str, what: str, fields: Mapping[str, Any], o: CallOptions) -> Taken:
        body = {name: value for name, value in fields.items() if value is not None}
        extra = waits(body["wait"]) if "wait" in body else 0.0
        if "wait" in body:
            body["wait"] = span(body["wait"], "wait")
        for field in ("costs", "actual"):
            if field in body:
                body[field] = amounts(body[field], field)
        c = Call("POST", path("rules", rule, what), body, repeatable=what in ("peek", "correct"), extra=extra)
        try:
            answer = self._call(c, o)
            return taken(answer.value, answer.headers)
        except Refused as error:
            if error.reason != "limit_reached":
                raise
            return taken({"allowed": False, **error.raw}, error.headers, error.retry_after)

    def take(
        self, rule: str, key: Optional[str] = None, *, cost: Optional[int] = None,
        costs: Optional[Mapping[str, int]] = None, wait: Optional[Span] = None, lease: Optional[str] = None,
        **o: "Unpack[CallOptions]",
    ) -> Taken:
        """Ask a rule to allow a request. A refusal is a result. Never repeated: a repetition would count again.

        ``costs`` is the cost for a rule with a unit, in place of ``cost``, such as ``{"tokens": 1800}``.
        """
        return self._ask(rule, "take", dict(key=key, cost=cost, costs=costs, wait=wait, lease=lease), o)

    def peek(
        self, rule: str, key: Optional[str] = None, *, cost: Optional[int] = None,
        costs: Optional[Mapping[str, int]] = None, **o: "Unpack[CallOptions]",
    ) -> Taken:
        """Return what a take would answer."""
        return self._ask(rule, "peek", dict(key=key, cost=cost, costs=costs), o)

    def correct(
        self, rule: str, take: str, actual: Mapping[str, int], *, key: Optional[str] = None, **o: "Unpack[CallOptions]"
    ) -> Taken:
        """Charge the actual cost of a take, in the rule's unit, in place of its first cost.

        ``take`` is from its answer, and ``key`` the key of the take. Only the first correction counts.
        """
        return self._ask(rule, "correct", dict(key=key, take=take, actual=actual), o)

    def refund(
        self, rule: str, key: Optional[str] = None, *, cost: Optional[int] = None, receipt: Optional[str] = None,
        lease: Optional[str] = None, **o: "Unpack[CallOptions]",
    ) -> Taken:
        """Give a take back."""
        fields = dict(key=key, cost=cost, receipt=receipt, lease=lease)
        return self._ask(rule, "refund", fields, o)

    def put_rule(
        self, name: str, spec: Mapping[str, Any], *, if_match: Any = None, if_none_match: bool = False,
        **o: "Unpack[CallOptions]",
    ) -> t.Rule:
        """Create or update a rule."""
        return self._put("rules", name, spec, if_match, if_none_match, o)

    # Queues

    def _put(
        self, kind: str, name: str, spec: Mapping[str, Any], if_match: Any, if_none_match: bool, o: CallOptions
    ) -> Any:
        headers = {**revision(if_match), **({"If-None-Match": "*"} if if_none_match else {})}
        # With a condition, a repetition would be refused if only the answer of the first try was lost.
        return (self._call(Call("PUT", path(kind, name), dict(spec), not headers, headers), o)).value

    def put_queue(
        self, name: str, spec: Mapping[str, Any], *, if_match: Any = None, if_none_match: bool = False,
        **o: "Unpack[CallOptions]",
    ) -> t.ChangedQueue:
        """Create or update a queue: at a revision with ``if_match``, only if it is new with ``if_none_match``."""
        return self._put("queues", name, spec, if_match, if_none_match, o)

    def get_queue(self, queue: str, **o: "Unpack[CallOptions]") -> t.Queue:
        """Return a queue and its state."""
        return self._of_queue("GET", queue, o=o)

    def delete_queue(
        self, queue: str, *, force: bool = False, if_match: Any = None, **o: "Unpack[CallOptions]"
    ) -> None:
        """Delete a queue, with ``force`` even if it has jobs."""
        at = path("queues", queue) + ("?force=true" if force else "")
        self._call(Call("DELETE", at, repeatable=False, headers=revision(if_match)), o)

    def apply(self, specs: Any, **o: "Unpack[CallOptions]") -> List[Any]:
        """Put queues and rules: a list of queue specs with names, or {"queues": ..., "rules": ...}."""
        file, done = specs if isinstance(specs, Mapping) else {"queues": specs}, []
        for kind in ("rules", "queues"):  # queues name rules
            for name, spec in named(file.get(kind) or ()):
                done.append(self._put(kind, name, spec, None, False, o))
        return done

    def pause(
        self, queue: str, reason: str = "", until: Any = None, **o: "Unpack[CallOptions]"
    ) -> t.Queue:
        """Pause a queue, by default until ``resume``."""
        body = {"reason": clip(reason)} if reason else {}
        if until is not None:
            body["until"] = instant(until, "until")
        return self._of_queue("POST", queue, "pause", o=o, body=body)

    def resume(self, queue: str, **o: "Unpack[CallOptions]") -> t.Queue:
        """Resume a queue."""
        return self._of_queue("POST", queue, "resume", o=o)

    def forecast(
        self, queue: str, *, rate: Optional[str] = None, set: Iterable[str] = (), **o: "Unpack[CallOptions]"
    ) -> t.QueueForecast:
        """Return how many jobs are left at each instant, also at another rate or with other settings."""
        query = [("set", setting) for setting in set] + ([("rate", rate)] if rate else [])
        return self._of_queue("GET", queue, "forecast", o=o, query=query)

    def events(
        self, queue: Optional[str] = None, *, after: str = "", **o: "Unpack[CallOptions]"
    ) -> Iterator[Event]:
        """Iterate over the events of a queue, or of all. A broken stream is continued where it broke."""
        stream = EventStream(self.core, queue, after)
        while True:
            error: Optional[PenstockError] = None
            try:
                token = self._token()
                headers = self.core.headers(token, stream.headers(), o.get("traceparent"))
                left = o.get("timeout") or self.core.timeout
                request = Send("GET", stream.path, headers, None, left, o.get("cancel"))
                for line in self._lines(request, SILENCE):
                    if event := stream.feed(line):
                        yield event
            except (Unreachable, Refused) as problem:
                error = problem
            self._sleep(stream.pause(error), o.get("cancel"))


class Turn:
    """A turn in a queue, while its block runs.

    If the provider asks for a pause, raise ``throttled(...)`` in the block or call it on the turn.
    """

    waited = 0.0
    _used: Optional[Dict[str, int]] = None

    def __init__(
        self, client: Calls, queue: str, wait: Span, costs: Optional[Mapping[str, int]],
        report_within: Optional[Span], o: CallOptions,
    ) -> None:
        self._client, self._queue, self._wait, self._o = client, queue, wait, o
        self._costs, self._within = costs, report_within
        self._turn: Dict[str, Any] = {}

    def __enter__(self) -> "Turn":
        self._turn = self._client._turn(self._queue, self._wait, self._costs, self._within, self._o)
        self.waited = self._turn["waited_ms"] / 1000
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        asked = throttled_by(error)
        if asked:
            self._client._tell(self._queue, *asked)
        self._client._end_turn(self._queue, self._turn, self._used)

    def throttled(self, after: Span = 1, reason: str = "") -> None:
        """Stop the queue for everyone."""
        self._client.throttle(self._queue, after, reason)

    @property
    def costs(self) -> Dict[str, int]:
        """What was charged for the turn, by unit. Without ``report_within`` it is empty."""
        return self._turn.get("costs") or {}

    def report_actual(self, costs: Mapping[str, int]) -> None:
        """Record what the block used, by unit, such as ``{"tokens": 1432}``.

        It replaces what was charged when the block ends. The last report counts. What the server refuses is reported
        as settle_failed, and not charged.
        """
        if "lease" not in self._turn:
            raise Invalid("the turn has no report_within", "actual")
        self._used = amounts(costs, "actual", self.costs)
