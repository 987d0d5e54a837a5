"""The blocking client, for threads."""
from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import signal
import threading
import time
import urllib.request
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Set

from ._calls_sync import Calls
from ._core import DEFAULT_TIMEOUT, Answer, CallOptions, Core, Hook, Send
from ._http_sync import Cancel, Transport
from ._jobs import Appended
from ._leases import Job
from ._retry import refusal
from ._stream import GATHER, Chunk, Stream
from ._tokens import Token
from ._units import Seconds, seconds
from ._worker import AsyncWorker
from .aio import AsyncPenstock
from .errors import Cancelled, Invalid, PenstockError

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Penstock(Calls):
    """A client of one Penstock server, for any number of threads.

    All calls take ``timeout`` (seconds), ``traceparent`` and ``cancel`` (a ``Cancel``).
    """

    def __init__(
        self, url: Optional[str] = None, *, token: Token = None, timeout: float = DEFAULT_TIMEOUT,
        on: Optional[Hook] = None, trace: Optional[Callable[[], Mapping[str, str]]] = None, tls: Any = None,
    ) -> None:
        self.core = Core(url, token, timeout, on=on, trace=trace, tls=tls)
        self._transport = Transport(self.core.address)
        self._lock = threading.Lock()
        self._loop: Optional[_Background] = None
        self._aio: Optional[AsyncPenstock] = None
        self._workers: Set["Worker"] = set()

    def __enter__(self) -> "Penstock":
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def close(self) -> None:
        """Stop the workers, and close what this thread and the one behind streams and workers hold."""
        workers, self._workers = self._workers, set()
        for worker in workers:
            with contextlib.suppress(PenstockError):  # run() and stop() raise it
                worker.stop()
        self._transport.close()
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None and loop.pid == os.getpid():
            loop.submit(self._on_loop().close()).result()
            loop.close()

    def _send(self, request: Send) -> Answer:
        return self._transport.send(request)

    def _sleep(self, pause: float, cancel: Optional[Cancel]) -> None:
        cancel.sleep(pause) if cancel else time.sleep(pause)

    def _resolve(self, value: Any) -> Any:
        if hasattr(value, "__await__"):
            raise Invalid("an async callback needs AsyncPenstock", "token")
        return value

    def _background(self) -> "_Background":
        with self._lock:
            if self._loop is None or self._loop.pid != os.getpid():
                self._loop = _Background()
            return self._loop

    def _on_loop(self) -> AsyncPenstock:
        """Return the asyncio client for the background, which shares this client's configuration."""
        if self._aio is None:
            self._aio = AsyncPenstock(core=self.core)
        return self._aio

    def _urlopen(self, *args: Any, **kwargs: Any) -> Any:
        return urllib.request.urlopen(*args, **kwargs)

    def _lines(self, request: Send, silence: float) -> Iterator[bytes]:
        with self._transport.open(request) as exchange:
            if exchange.response.status >= 300:
                raise refusal(exchange.response.status, exchange.headers, exchange.response.read())
            yield from exchange.lines(silence)

    def append_many(
        self, queue: str, jobs: Iterable[Mapping[str, Any]], **o: "Unpack[CallOptions]"
    ) -> List[Appended]:
        """Append jobs, one request after another. Returns a result per job, in order; if refused, with ``error``."""
        stream = self._on_loop()._stream(1 << 60, 0.0, o.get("timeout") or self.core.timeout, eager=False)
        return stream.in_order([*self._append(stream, queue, jobs, o)])

    def append_stream(
        self, queue: str, jobs: Iterable[Mapping[str, Any]], *, in_flight: int = 1000, retry_for: Seconds = 60.0,
        **o: "Unpack[CallOptions]",
    ) -> Iterator[Appended]:
        """Append jobs from a source of any length. Yields one result per job, in the order of the answers.

        At most ``in_flight`` jobs are held. A job refused with 429 or 503 is sent again for ``retry_for`` seconds.
        """
        stream = self._on_loop()._stream(in_flight, seconds(retry_for), seconds(retry_for), eager=True)
        return self._append(stream, queue, jobs, o)

    def _append(self, stream: Stream, queue: str, jobs: Iterable[Any], o: CallOptions) -> Iterator[Appended]:
        source, failure, lock = iter(jobs), None, threading.Lock()
        sending: Dict["Future[Optional[PenstockError]]", Chunk] = {}
        cancel: Optional[Cancel] = o.get("cancel")
        wake: "Future[None]" = Future()

        def stop() -> None:
            wake.set_result(None)

        def send() -> None:
            with lock:
                while chunk := stream.next_chunk(sum(not future.done() for future in sending)):
                    work = self._on_loop()._send_chunk(queue, chunk, o)
                    sending[self._background().submit(work)] = chunk

        async def send_on() -> None:
            """Send what is ready while this thread waits for the source or works on a result."""
            while True:
                await asyncio.sleep(GATHER)
                send()

        if cancel:
            cancel.add(stop)
        ticking = self._background().submit(send_on())
        try:
            while not stream.finished:
                send()
                if cancel and cancel.cancelled:
                    raise Cancelled("the call was cancelled")
                with lock:
                    done = [future for future in sending if future.done()]
                    for future in done:
                        stream.settle(sending.pop(future), future.result())
                while stream.results:
                    yield stream.results.popleft()
                if done:
                    continue
                if not stream.ended and stream.room:
                    try:
                        job = next(source)
                        with lock:
                            stream.add(job)
                    except StopIteration:
                        stream.ended = True
                    except Exception as error:  # what was taken is answered first
                        stream.ended, failure = True, error
                elif not stream.finished:
                    with lock:
                        pause, under_way = stream.pause(len(sending)), {wake, *sending}
                    concurrent.futures.wait(under_way, pause, concurrent.futures.FIRST_COMPLETED)
            if failure is not None:
                raise failure
        finally:
            ticking.cancel()
            if cancel:
                cancel.remove(stop)
            for future in sending:
                future.cancel()

    def worker(self, queue: str, handler: Callable[[Job], Any], **more: Any) -> "Worker":
        """Return a worker. It takes ``concurrency``, ``name``, ``grace`` and ``max_time``."""
        return Worker(self, queue, handler, **more)


class Worker:
    """An ``AsyncWorker`` on a loop of its own. A plain function is called in a thread for each job."""

    def __init__(self, client: Penstock, queue: str, handler: Callable[[Job], Any], **more: Any) -> None:
        self._client = client
        self._worker = AsyncWorker(client._on_loop(), queue, handler, **more)
        self._running: Optional["Future[None]"] = None

    @property
    def stats(self) -> Dict[str, int]:
        return self._worker.stats

    def start(self) -> "Worker":
        """Start to work, in the background."""
        self._running = self._client._background().submit(self._worker.run(signals=False))
        self._client._workers.add(self)
        return self

    def stop(self, grace: Optional[Seconds] = None) -> None:
        """Take no further jobs and wait for the running handlers. After the grace, cancel them and retry their jobs."""
        if self._running is not None:
            self._client._workers.discard(self)
            self._client._background().submit(self._worker.stop(grace)).result()

    def run(self, signals: bool = True) -> None:
        """Work until ``stop`` or, with signals, SIGTERM or SIGINT. Every failure is reported and tried again."""
        running = self.start()._running
        assert running is not None
        before = {}
        if signals and threading.current_thread() is threading.main_thread():
            asked = threading.Event()
            for number in (signal.SIGTERM, signal.SIGINT):
                before[number] = signal.signal(number, lambda *_: asked.set())
            running.add_done_callback(lambda _: asked.set())
        try:
            if before:
                asked.wait()
                self.stop()
            running.result()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def __enter__(self) -> "Worker":
        return self.start()

    def __exit__(self, *error: Any) -> None:
        self.stop()


class _Background:
    """A thread with an asyncio loop."""

    def __init__(self) -> None:
        self.pid = os.getpid()  # a thread does not survive a fork
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="penstock", daemon=True)
        self._thread.start()

    def submit(self, work: Any) -> "Future[Any]":
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        """Cancel what still runs, and end the thread."""

        async def cancel_all() -> None:
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.sleep(0)

        self.submit(cancel_all()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
