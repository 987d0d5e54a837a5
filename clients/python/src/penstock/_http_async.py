"""HTTP/1.1 for asyncio, on streams. It reads the answer while the request is still being sent."""
from __future__ import annotations

import asyncio
import socket
import time
from typing import Any, AsyncIterator, Awaitable, Dict, List, Optional, TypeVar

from ._address import Address
from ._core import MAX_ANSWER, Answer, Send
from .errors import Invalid, TimedOut, unanswered

T = TypeVar("T")
MAX_IDLE = 30.0
CONNECT_TIMEOUT = 10.0
MAX_LINE = 1 << 20
MAX_HEADERS = 200


class Broken(Exception):
    """The peer does not speak HTTP, or stopped within an answer."""


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.used = 0.0

    def close(self) -> None:
        self.writer.transport.abort()

    def fresh(self) -> bool:
        idle = time.monotonic() - self.used
        return idle < MAX_IDLE and not self.reader.at_eof() and not self.writer.transport.is_closing()


async def connect(address: Address) -> Connection:
    if address.socket:
        return Connection(*await asyncio.open_unix_connection(address.socket, limit=MAX_LINE))
    more: Dict[str, Any] = {"ssl": address.tls, "limit": MAX_LINE}
    if address.tls:
        more["server_hostname"] = address.host
    if not address.tunnel:
        return Connection(*await asyncio.open_connection(address.connect_host, address.connect_port, **more))
    sock = await tunnel(address)
    try:
        return Connection(*await asyncio.open_connection(sock=sock, **more))
    except BaseException:
        sock.close()
        raise


async def tunnel(address: Address) -> socket.socket:
    """Return a socket that a proxy connected. Python 3.9 cannot start TLS on a stream that exists, but on a socket."""
    loop = asyncio.get_running_loop()
    sock = await loop.run_in_executor(
        None, socket.create_connection, (address.connect_host, address.connect_port), CONNECT_TIMEOUT
    )
    try:
        sock.setblocking(False)
        await loop.sock_sendall(sock, address.connect_request())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            byte = await loop.sock_recv(sock, 1)  # one at a time: what follows belongs to TLS
            head += byte
            if not byte or len(head) > 1 << 16:
                raise Broken("the proxy closed the connection")
        if head.split(None, 2)[1:2] != [b"200"]:
            raise Broken("the proxy refused: " + head.split(b"\r\n")[0].decode("latin-1"))
        return sock
    except BaseException:
        sock.close()
        raise


def head_of(address: Address, request: Send) -> bytes:
    headers = {"Host": address.authority, **request.headers}
    if address.proxied and not address.tunnel:
        headers.update(address.proxy_headers)
    if request.body is not None or request.method != "GET":
        headers["Content-Length"] = str(len(request.body or b""))
    lines = [f"{request.method} {address.target(request.path)} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if any("\r" in line or "\n" in line for line in lines):
        raise Invalid("must not have line breaks", "headers")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


class Exchange:
    """A request and its answer, on a connection that is not used for anything else meanwhile."""

    def __init__(self, connection: Connection) -> None:
        self.connection, self._reader = connection, connection.reader
        self.status = 0
        self.headers: Dict[str, str] = {}
        self.reusable = False

    async def begin(self, head: bytes, body: Optional[bytes]) -> None:
        # The transport sends the body by itself, so an answer that comes early is read in time.
        self.connection.writer.write(head + (body or b""))
        while self.status in (0, 100, 102, 103):
            await self._read_head()

    async def _line(self) -> bytes:
        line = await self._reader.readline()
        if not line.endswith(b"\n"):
            raise Broken("the connection closed without an answer" if not line else "the answer ended early")
        return line.rstrip(b"\r\n")

    async def _read_head(self) -> None:
        version, _, rest = (await self._line()).partition(b" ")
        if not version.startswith(b"HTTP/1.") or not rest[:3].isdigit():
            raise Broken("the answer is not HTTP/1.1")
        self.status, self.headers = int(rest[:3]), {}
        while line := await self._line():
            name, _, value = line.decode("latin-1").partition(":")
            self.headers[name.strip().lower()] = value.strip()
            if len(self.headers) > MAX_HEADERS:
                raise Broken("the answer has too many headers")
        keep = self.headers.get("connection", "").lower()
        self.reusable = keep != "close" and (version == b"HTTP/1.1" or keep == "keep-alive")

    async def chunks(self) -> AsyncIterator[bytes]:
        """Return the parts of the body as they come."""
        if self.status in (204, 304):
            return
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            while size := int((await self._line()).split(b";")[0], 16):
                async for part in self._exactly(size):
                    yield part
                await self._line()
            while await self._line():
                pass
        elif "content-length" in self.headers:
            async for part in self._exactly(int(self.headers["content-length"])):
                yield part
        else:
            self.reusable = False
            while part := await self._reader.read(1 << 16):
                yield part

    async def _exactly(self, size: int) -> AsyncIterator[bytes]:
        while size:
            part = await self._reader.read(min(size, 1 << 16))
            if not part:
                raise Broken("the answer ended early")
            size -= len(part)
            yield part

    async def lines(self) -> AsyncIterator[bytes]:
        """Return the lines of the body. The last one may be without an end."""
        rest = b""
        async for part in self.chunks():
            *whole, rest = (rest + part).split(b"\n")
            for line in whole:
                yield line
        if rest:
            yield rest

    async def body(self) -> bytes:
        parts: List[bytes] = []
        size = 0
        async for part in self.chunks():
            size += len(part)
            if size > MAX_ANSWER:
                raise Broken("the answer is larger than 64 MiB")
            parts.append(part)
        return b"".join(parts)


class Transport:
    """Sends requests, on as many connections as are needed at a time."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._idle: List[Connection] = []
        self._loop: Optional[asyncio.AbstractEventLoop] = None

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    async def _connection(self) -> Connection:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # connections cannot move to another loop
            self._idle, self._loop = [], loop
        while self._idle:
            connection = self._idle.pop()
            if connection.fresh():
                return connection
            connection.close()
        return await connect(self.address)

    async def send(self, request: Send) -> Answer:
        """Return the whole answer."""
        return await within(self.address, request.left, self._send(request))

    async def _send(self, request: Send) -> Answer:
        exchange = await self.start(request)
        try:
            body = await exchange.body()
        except BaseException:
            exchange.connection.close()
            raise
        self.end(exchange)
        return Answer(exchange.status, exchange.headers, body)

    async def start(self, request: Send) -> Exchange:
        """Return an exchange whose body is not read yet. End it, or close its connection."""
        head = head_of(self.address, request)
        exchange = Exchange(await self._connection())
        try:
            await exchange.begin(head, request.body)
        except BaseException:
            exchange.connection.close()
            raise
        return exchange

    def end(self, exchange: Exchange) -> None:
        """Keep the connection of an exchange whose body was read."""
        connection = exchange.connection
        if exchange.reusable and not connection.writer.transport.is_closing():
            connection.used = time.monotonic()
            self._idle.append(connection)
        else:
            connection.close()


async def within(address: Address, left: float, work: Awaitable[T]) -> T:
    """Await work on a connection for some seconds. What goes wrong is Unreachable or TimedOut.

    Not asyncio.wait_for: before Python 3.12, it loses a cancellation that comes together with the answer.
    """
    task, late = asyncio.current_task(), False
    assert task is not None

    def expire() -> None:
        nonlocal late
        late = True
        task.cancel()

    timer = asyncio.get_running_loop().call_later(max(left, 0.0), expire)
    try:
        return await work
    except asyncio.CancelledError as error:
        if not late:
            raise
        if hasattr(task, "uncancel") and task.uncancel() > 0:
            raise  # the caller cancelled it too
        raise TimedOut(f"no answer from {address.shown} in time") from error
    except TimeoutError as error:
        raise TimedOut(f"no answer from {address.shown} in time") from error
    except Invalid:
        raise
    except (OSError, Broken, EOFError, ValueError) as error:
        raise unanswered(address.shown, error) from error
    finally:
        timer.cancel()
