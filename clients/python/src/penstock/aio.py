"""The client for asyncio."""
from __future__ import annotations

import asyncio
import urllib.request
from typing import (
    TYPE_CHECKING, Any, AsyncIterable, AsyncIterator, Awaitable, Callable, Dict, Iterable, List, Mapping, Optional,
    Union,
)

from ._calls import AsyncCalls
from ._core import DEFAULT_TIMEOUT, Answer, CallOptions, Core, Hook, Send
from ._http_async import Exchange, Transport, within
from ._jobs import Appended
from ._leases import Job
from ._retry import refusal
from ._stream import Chunk, Stream
from ._tokens import Token
from ._units import Seconds, path, seconds
from ._worker import AsyncWorker
from .errors import PenstockError

if TYPE_CHECKING:
    from typing_extensions import Unpack


class AsyncPenstock(AsyncCalls):
    """A client of one Penstock server. All calls take ``timeout`` (seconds) and ``traceparent``."""

    def __init__(
        self, url: Optional[str] = None, *, token: Token = None, timeout: float = DEFAULT_TIMEOUT,
        on: Optional[Hook] = None, trace: Optional[Callable[[], Mapping[str, str]]] = None, tls: Any = None,
        core: Optional[Core] = None,
    ) -> None:
        self.core = core or Core(url, token, timeout, on=on, trace=trace, tls=tls)
        self._transport = Transport(self.core.address)

    async def __aenter__(self) -> "AsyncPenstock":
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections that are kept."""
        self._transport.close()
        await asyncio.sleep(0)  # asyncio closes them in its next step

    async def _send(self, request: Send) -> Answer:
        return await self._transport.send(request)

    async def _sleep(self, pause: float, cancel: Any) -> None:
        await asyncio.sleep(pause)

    async def _resolve(self, value: Any) -> Any:
        return await value if isinstance(value, Awaitable) else value

    async def _urlopen(self, *args: Any, **kwargs: Any) -> Any:
        return await asyncio.to_thread(urllib.request.urlopen, *args, **kwargs)

    async def append_many(
        self, queue: str, jobs: Iterable[Mapping[str, Any]], **o: "Unpack[CallOptions]"
    ) -> List[Appended]:
        """Append jobs, one request after another. Returns a result per job, in order; if refused, with ``error``."""
        stream = self._stream(1 << 60, 0.0, o.get("timeout") or self.core.timeout, eager=False)
        return stream.in_order([result async for result in self._append(stream, queue, jobs, o)])

    def append_stream(
        self, queue: str, jobs: Union[Iterable[Mapping[str, Any]], AsyncIterable[Mapping[str, Any]]], *,
        in_flight: int = 1000, retry_for: Seconds = 60.0, **o: "Unpack[CallOptions]",
    ) -> AsyncIterator[Appended]:
        """Append jobs from a source of any length. Yields one result per job, in the order of the answers.

        At most ``in_flight`` jobs are held. A job refused with 429 or 503 is sent again for ``retry_for`` seconds.
        """
        stream = self._stream(in_flight, seconds(retry_for), seconds(retry_for), eager=True)
        return self._append(stream, queue, jobs, o)

    def _stream(self, in_flight: int, retry_for: float, break_for: float, eager: bool) -> Stream:
        def renew() -> bool:
            self.core.tokens.forget()
            return self.core.tokens.renewable

        return Stream(in_flight, retry_for, break_for, renew, eager)

    async def _append(self, stream: Stream, queue: str, jobs: Any, o: CallOptions) -> AsyncIterator[Appended]:
        more, room = asyncio.Event(), asyncio.Event()
        taking = asyncio.ensure_future(_take(stream, jobs, more, room))
        sending: Dict["asyncio.Future[Optional[PenstockError]]", Chunk] = {}
        waking = asyncio.ensure_future(more.wait())
        try:
            while True:
                while chunk := stream.next_chunk(len(sending)):
                    sending[asyncio.ensure_future(self._send_chunk(queue, chunk, o))] = chunk
                while stream.results:
                    result = stream.results.popleft()
                    room.set()
                    yield result
                if stream.finished:
                    await taking  # raises the error of the source
                    return
                pause = stream.pause(len(sending))
                await asyncio.wait({waking, *sending}, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
                if waking.done():
                    more.clear()
                    waking = asyncio.ensure_future(more.wait())
                for done in [future for future in sending if future.done()]:
                    stream.settle(sending.pop(done), done.result())
                    room.set()
        finally:
            for future in (taking, waking, *sending):
                future.cancel()

    async def _send_chunk(self, queue: str, chunk: Chunk, o: CallOptions) -> Optional[PenstockError]:
        """Send a request of a stream and read its answers. Returns what went wrong."""
        left = seconds(o.get("timeout") or self.core.timeout)
        types = {"Content-Type": "application/x-ndjson", "Accept": "application/x-ndjson, application/problem+json"}
        try:
            at = path("queues", queue, "jobs")
            headers = self.core.headers(await self._token(), types, o.get("traceparent"))
            exchange = await self._open(Send("POST", at, headers, chunk.body, left))
            try:
                parts = exchange.chunks()
                while part := await within(self.core.address, left, _next(parts)):
                    chunk.feed(part)
            finally:
                exchange.connection.close()  # the server closes it after a stream
            return None
        except PenstockError as error:
            self.core.report("stream_broken", queue=queue, error=error)
            return error

    async def _open(self, request: Send) -> Exchange:
        """Return an exchange with a successful answer that is still to be read."""
        exchange = await within(self.core.address, request.left, self._transport.start(request))
        if exchange.status >= 300:
            try:
                body = await within(self.core.address, request.left, exchange.body())
            finally:
                exchange.connection.close()
            raise refusal(exchange.status, exchange.headers, body)
        return exchange

    async def _lines(self, request: Send, silence: float) -> AsyncIterator[bytes]:
        exchange = await self._open(request)
        try:
            lines = exchange.lines()
            while (line := await within(self.core.address, silence, _next(lines))) is not None:
                yield line
        finally:
            exchange.connection.close()

    def worker(self, queue: str, handler: Callable[[Job], Any], **more: Any) -> AsyncWorker:
        """Return a worker. It takes ``concurrency``, ``name``, ``grace`` and ``max_time``."""
        return AsyncWorker(self, queue, handler, **more)


async def _next(parts: AsyncIterator[bytes]) -> Optional[bytes]:
    async for part in parts:
        return part
    return None


async def _take(stream: Stream, jobs: Any, more: asyncio.Event, room: asyncio.Event) -> None:
    """Take jobs from the source while there is room."""
    try:
        if hasattr(jobs, "__aiter__"):
            async for job in jobs:
                await _put(stream, job, more, room)
        else:
            for job in jobs:
                await _put(stream, job, more, room)
    finally:
        stream.ended = True
        more.set()


async def _put(stream: Stream, job: Any, more: asyncio.Event, room: asyncio.Event) -> None:
    stream.add(job)
    more.set()
    if stream.taken % 100 == 0:
        await asyncio.sleep(0)  # a source that never waits must not keep the others waiting
    while not stream.room:
        room.clear()
        await room.wait()
