"""The worker, on asyncio. The blocking client runs it on a loop of its own, with handlers in threads."""
from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import os
import signal
import socket
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Set

from ._core import Call
from ._leases import Job, Lease, read_jobs
from ._retry import backoff
from ._units import Seconds, path, seconds
from .errors import Invalid, Refused, Unreachable
from .outcomes import Outcome, delivered, released, retry

if TYPE_CHECKING:
    from .aio import AsyncPenstock

BATCH = 100
WAIT = 30.0
LAST = 1.0  # time for a handler to end after the grace period
LINGER = 0.2  # jobs may be on their way when a worker stops; nobody else would get them until their leases end
STOPPED = "the worker stopped"
FATAL = (400, 403, 404, 405, 413)


class AsyncWorker:
    """Leases jobs, runs the handler for each, extends leases and settles.

    A handler is a coroutine function or, to be run in a thread, a plain function. ``stats`` counts the jobs started,
    settled and lost.
    """

    def __init__(
        self, client: "AsyncPenstock", queue: str, handler: Callable[[Job], Any], *, concurrency: int = 10,
        name: Optional[str] = None, grace: Seconds = 30.0, max_time: Optional[Seconds] = None,
    ) -> None:
        if not 1 <= concurrency <= 10_000:
            raise Invalid("must be from 1 to 10,000", "concurrency")
        if not callable(handler):
            raise Invalid("must be a function of a job", "handler")
        self.queue, self.concurrency, self.grace = queue, concurrency, seconds(grace)
        self.max_time = None if max_time is None else seconds(max_time)
        self.name = name or f"{socket.gethostname()}:{os.getpid()}"[:64]
        self.stats = {"started": 0, "settled": 0, "lost": 0}
        self._client, self._core, self._handler = client, client.core, handler
        self._leases: Dict[int, Lease] = {}
        self._running: Set["asyncio.Future[Any]"] = set()
        self._settling: List[Lease] = []
        self._task: Optional["asyncio.Task[None]"] = None

    # The life of a worker

    def start(self) -> "AsyncWorker":
        """Start to work, as a task of the running loop."""
        if self._task is not None:
            raise Invalid("the worker was started already")
        self._stopping, self._changed, self._unsettled = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._stop_grace = self.grace
        self._task = asyncio.ensure_future(self._work())
        return self

    async def stop(self, grace: Optional[Seconds] = None) -> None:
        """Take no further jobs and wait for the running handlers. After the grace, cancel them and retry their jobs."""
        if self._task is None:
            return
        if grace is not None:
            self._stop_grace = seconds(grace)
        self._stopping.set()
        await asyncio.shield(self._task)

    async def run(self, signals: bool = True) -> None:
        """Work until ``stop`` or, with signals, SIGTERM or SIGINT. Every failure is reported and tried again."""
        if self._task is None:
            self.start()
        assert self._task is not None
        loop = asyncio.get_running_loop()
        caught = []
        if signals and threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                with contextlib.suppress(NotImplementedError):  # Windows
                    loop.add_signal_handler(number, self._stopping.set)
                    caught.append(number)
        try:
            await asyncio.shield(self._task)
        except asyncio.CancelledError:
            await self.stop()
            raise
        finally:
            for number in caught:
                loop.remove_signal_handler(number)

    async def __aenter__(self) -> "AsyncWorker":
        return self.start()

    async def __aexit__(self, *error: Any) -> None:
        await self.stop()

    async def _work(self) -> None:
        extending = asyncio.ensure_future(self._extend_all())
        settling = asyncio.ensure_future(self._settle_all())
        try:
            await self._lease_all()
        finally:
            await self._end_handlers()
            self._finished = True
            self._unsettled.set()
            await asyncio.wait({settling}, timeout=max(self._stop_grace, LAST))
            extending.cancel()  # so the leases run out, and the worker ends, if settling always fails
            await asyncio.wait({settling, extending})

    async def _end_handlers(self) -> None:
        if self._running:
            await asyncio.wait(self._running, timeout=self._stop_grace)
        late = [lease for lease in self._leases.values() if lease.outcome is None]
        for lease in late:
            lease.job.lost.set()
            if lease.task is not None and not lease.in_thread:  # the result of a thread still counts
                lease.task.cancel()
        if self._running:
            await asyncio.wait(self._running, timeout=LAST)
        for lease in late:
            if lease.outcome is None:
                self._core.report("abandoned", queue=self.queue, id=lease.job.id)
                self._abandon(lease, retry(reason=STOPPED))

    # Leases

    async def _lease_all(self) -> None:
        failures = 0
        stop = asyncio.ensure_future(self._stopping.wait())
        try:
            while not self._stopping.is_set():
                free = self.concurrency - len(self._running)
                self._changed.clear()
                if free <= 0:
                    await _first(stop, asyncio.ensure_future(self._changed.wait()))
                    continue
                asking = asyncio.ensure_future(self._lease(min(free, 500)))
                await _first(stop, asking, linger=LINGER)
                if not asking.done() or asking.cancelled():
                    continue
                try:
                    for job in asking.result():
                        self._begin(job)
                    failures = 0
                except Exception as error:
                    failures += 1
                    self._core.report("lease_failed", queue=self.queue, error=error, attempt=failures)
                    pause = max(getattr(error, "retry_after", None) or 0.0, backoff(failures))
                    await _first(stop, asyncio.ensure_future(asyncio.sleep(pause)))
        finally:
            stop.cancel()

    async def _lease(self, most: int) -> List[Job]:
        body = {"max": most, "wait": f"{WAIT:g}s", "worker": self.name}
        c = Call("POST", path("queues", self.queue, "leases"), body, extra=WAIT, repeatable=False, parse=read_jobs)
        return (await self._client._call(c, {})).value  # type: ignore[no-any-return]

    def _begin(self, job: Job) -> None:
        lease = Lease(job, time.monotonic())
        loop = asyncio.get_running_loop()
        self._leases[id(lease)] = lease
        if self._stopping.is_set():
            self._core.report("released", queue=self.queue, id=job.id)
            self._settle(lease, released())
            return

        def settle(outcome: Outcome) -> None:
            loop.call_soon_threadsafe(self._settle, lease, outcome)

        job._settle = settle
        self.stats["started"] += 1
        lease.task = asyncio.ensure_future(self._handle(lease))
        self._running.add(lease.task)
        lease.task.add_done_callback(self._running.discard)
        lease.task.add_done_callback(lambda _: self._changed.set())

    async def _handle(self, lease: Lease) -> None:
        job = lease.job
        try:
            called = getattr(self._handler, "__call__", None)
            lease.in_thread = not (inspect.iscoroutinefunction(self._handler) or inspect.iscoroutinefunction(called))
            result = await _in_thread(self._handler, job) if lease.in_thread else self._handler(job)
            lease.in_thread = False
            if inspect.isawaitable(result):
                result = await result
        except Outcome as outcome:
            result = outcome
        except asyncio.CancelledError:
            if lease.outcome is not None:
                return
            result = retry(reason=STOPPED if job.lost.is_set() else "the handler was cancelled")
        except BaseException as error:  # SystemExit must not end the worker
            text = _text(error)
            misuse = not isinstance(error, Exception) or "must derive from BaseException" in text
            kind = "misuse" if misuse else "handler_failed"
            self._core.report(kind, queue=self.queue, id=job.id, error=error)
            result = retry(reason=f"{type(error).__name__}: {text}" if text else type(error).__name__)
        settled, job._settle = job._settle is None, None
        if not settled:
            self._settle(lease, result if isinstance(result, Outcome) else delivered())
        elif isinstance(result, Outcome) and not job.lost.is_set():
            error = Invalid(f"job {job.id!r} was settled, so its outcome {result.outcome} is ignored")
            self._core.report("misuse", queue=self.queue, id=job.id, error=error)

    def _settle(self, lease: Lease, outcome: Outcome) -> None:
        if lease.outcome is None:
            lease.outcome, lease.actual = outcome, lease.job._actual
            self._settling.append(lease)
            self._unsettled.set()

    def _abandon(self, lease: Lease, outcome: Optional[Outcome]) -> None:
        """Cancel a handler. Without an outcome its job is lost, else it is settled with the outcome."""
        lease.job._settle = None
        lease.job.lost.set()
        if outcome is None:
            self._leases.pop(id(lease), None)
            lease.outcome = released()  # for the handler, which sees that there is nothing left to settle
        else:
            self._settle(lease, outcome)
        if lease.task is not None:
            lease.task.cancel()

    def _lose(self, lease: Lease, error: Optional[Exception] = None) -> None:
        if self._leases.get(id(lease)) is lease:
            self.stats["lost"] += 1
            self._abandon(lease, None)
            self._core.report("lost", queue=self.queue, id=lease.job.id, error=error)

    # Extending

    async def _extend_all(self) -> None:
        while True:
            now = time.monotonic()
            held = list(self._leases.values())  # also those whose settlement is not answered yet
            due = sorted([lease for lease in held if lease.due <= now], key=lambda lease: lease.due)[:BATCH]
            for lease in held:
                if self.max_time is not None and lease.outcome is None and now - lease.started > self.max_time:
                    self._core.report("abandoned", queue=self.queue, id=lease.job.id)
                    self._abandon(lease, retry(reason=f"the handler ran for more than {self.max_time:g} s"))
            if due:
                await self._extend(due)
                continue
            soonest = min([lease.due for lease in held], default=now + 1)
            pause = min(max(soonest - now, 0.01), 0.25)
            await asyncio.sleep(pause)
            late = time.monotonic() - now - pause
            held += self._leases.values()  # some may be new, and some may have ended in the step that blocked
            if held and late > min(lease.length for lease in held) / 3:
                self._core.report("blocked", queue=self.queue, id=held[-1].job.id, seconds=late)

    async def _extend(self, leases: List[Lease]) -> None:
        asked = time.monotonic()
        try:
            answers = await self._post("extend", [lease.wire for lease in leases], _limit(leases))
            for lease, answer in zip(leases, answers):
                if answer.get("expires_in_ms", 0) > 0:
                    lease.extended(asked, answer["expires_in_ms"] / 1000)
                elif "expires_in_ms" in answer and lease.outcome is None:
                    self._lose(lease)
                else:  # without an answer, or settled meanwhile
                    lease.later(time.monotonic(), (answer.get("retry_after_ms") or 0) / 1000)
        except Exception as error:  # extending goes on after any error
            self._core.report("extend_failed", queue=self.queue, error=error)
            for lease in leases:
                if lease.outcome is None and lease.over():
                    self._lose(lease, error)
                else:
                    lease.later(time.monotonic(), getattr(error, "retry_after", None))

    # Settling

    _finished = False

    async def _settle_all(self) -> None:
        failures = 0
        while True:
            await self._unsettled.wait()
            # What failed is sent again by itself, so that it cannot keep the others.
            batch = [lease for lease in self._settling if lease.failed == self._settling[0].failed][:BATCH]
            if not batch:
                if self._finished:
                    return
                self._unsettled.clear()
                continue
            done = await self._settle_batch(batch)
            failures = 0 if done else failures + 1
            for lease in batch:
                lease.failed = True
                self._settling.remove(lease)
            self._settling = [lease for lease in self._settling + batch if id(lease) in self._leases]
            if not done:
                await asyncio.sleep(backoff(failures))

    async def _settle_batch(self, batch: List[Lease]) -> bool:
        """Settle leases. Returns False if some of them must be settled again after a pause."""
        try:
            jobs = [{**lease.wire, **_fields(lease)} for lease in batch]
            answers = await self._post("settle", jobs, _limit(batch))
        except Exception as error:  # settling goes on after any error
            if isinstance(error, Refused) and error.status in FATAL and error.reason != "http_error":
                if len(batch) > 1:  # one of them is at fault, which must not keep the others
                    half = len(batch) // 2
                    return all(await asyncio.gather(*map(self._settle_batch, (batch[:half], batch[half:]))))
                self._core.report("settle_failed", queue=self.queue, id=batch[0].job.id, error=error)
                if batch[0].actual is not None:  # perhaps they are at fault: the job is settled without them
                    batch[0].actual = None
                    return await self._settle_batch(batch)
                self._leases.pop(id(batch[0]), None)
                return True
            self._core.report("settle_failed", queue=self.queue, error=error)
            for lease in batch:
                if lease.over():
                    self._lose(lease, error)
            return False
        done = True
        for lease, answer in zip(batch, answers):
            if answer.get("stale"):
                self._lose(lease)
            elif "reason" in answer:
                done = False
                if answer.get("status") in FATAL and lease.actual is not None:
                    error = Refused(int(answer["status"]), str(answer["reason"]), str(answer.get("detail", "")))
                    self._core.report("settle_failed", queue=self.queue, id=lease.job.id, error=error)
                    lease.actual = None
            else:
                self.stats["settled"] += 1
                self._leases.pop(id(lease), None)
        return done

    async def _post(self, what: str, jobs: List[Dict[str, Any]], timeout: float) -> List[Any]:
        c = Call("POST", path("queues", self.queue, what), {"jobs": jobs}, queue=self.queue, timeout=timeout)
        value = (await self._client._call(c, {})).value
        answers = value.get("jobs") if isinstance(value, dict) else None
        if not isinstance(answers, list) or [type(answer) for answer in answers] != [dict] * len(jobs):
            raise Unreachable("the answer is not about the jobs of the request")
        return answers


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # of the handler's own class of errors
        return ""


def _limit(leases: List[Lease]) -> float:
    """Return the time for a request about leases, after which there is still time to repeat it."""
    return max(1.0, min(10.0, min(lease.length for lease in leases) / 3))


def _fields(lease: Lease) -> Dict[str, Any]:
    assert lease.outcome is not None
    if lease.actual is None:
        return lease.outcome.fields
    return {**lease.outcome.fields, "actual": lease.actual}


async def _first(stop: "asyncio.Future[Any]", other: "asyncio.Future[Any]", linger: float = 0.0) -> None:
    """Wait for a future, but only until stop, which cancels it after some seconds."""
    try:
        await asyncio.wait({stop, other}, return_when=asyncio.FIRST_COMPLETED)
        if not other.done() and linger:
            await asyncio.wait({other}, timeout=linger)
    finally:
        if not other.done():
            other.cancel()
            await asyncio.wait({other})


async def _in_thread(handler: Callable[[Job], Any], job: Job) -> Any:
    """Run a handler in a thread of its own, which a handler that never returns can keep."""
    loop, result = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()
    context = contextvars.copy_context()

    def finish(value: Any, error: Optional[BaseException]) -> None:
        if not result.done():
            result.set_exception(error) if error is not None else result.set_result(value)

    def work() -> None:
        value, failure = None, None
        try:
            value = context.run(handler, job)
        except BaseException as error:
            failure = Misbehaved(error) if isinstance(error, StopIteration) else error
        try:
            loop.call_soon_threadsafe(finish, value, failure)
        except RuntimeError:
            pass  # the loop is closed: the worker has ended without this handler

    threading.Thread(target=work, name=f"penstock-{job.id}", daemon=True).start()
    return await result


class Misbehaved(Exception):
    """Wraps StopIteration, which a future cannot hold."""
