"""HTTP for threads: http.client with one kept connection per thread, deadlines, and cancellation."""
from __future__ import annotations

import functools
import http.client
import io
import select
import socket
import threading
import time
from typing import Any, Callable, Iterator, List, Optional

from ._address import Address
from ._core import MAX_ANSWER, Answer, Send
from .errors import Cancelled, Invalid, PenstockError, TimedOut, Unreachable, unanswered

MAX_IDLE = 30.0  # the server closes idle connections after 2 minutes, proxies sooner


class Cancel:
    """Cancels calls of other threads: give it to them as ``cancel=``, then call ``cancel()``."""

    def __init__(self) -> None:
        self._set = threading.Event()
        self._lock = threading.Lock()
        self._calls: List[Callable[[], None]] = []

    @property
    def cancelled(self) -> bool:
        return self._set.is_set()

    def cancel(self) -> None:
        with self._lock:
            self._set.set()
            calls = list(self._calls)
        for call in calls:
            call()

    def sleep(self, seconds: Optional[float]) -> None:
        if self._set.wait(seconds):
            raise Cancelled("the call was cancelled")

    def add(self, call: Callable[[], None]) -> None:
        """Call a function at the cancellation. It must not block."""
        with self._lock:
            if not self.cancelled:
                self._calls.append(call)
                return
        raise Cancelled("the call was cancelled")

    def remove(self, call: Callable[[], None]) -> None:
        with self._lock:
            if call in self._calls:
                self._calls.remove(call)


class _Raw(io.RawIOBase):
    """Reads a socket until the deadline of its connection. A socket's own timeout would restart with each byte."""

    def __init__(self, connection: "_Connection", sock: socket.socket) -> None:
        self._connection, self._sock = connection, sock
        self._raw = sock.makefile("rb", buffering=0)  # keeps the socket open until the answer is read

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> Optional[int]:
        self._sock.settimeout(self._connection.left())
        return self._raw.readinto(into)  # type: ignore[attr-defined, no-any-return]

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    def __init__(self, connection: "_Connection", sock: socket.socket, *args: Any, **more: Any) -> None:
        super().__init__(sock, *args, **more)
        self.fp.close()
        self.fp = io.BufferedReader(_Raw(connection, sock), 1 << 16)


class _Connection(http.client.HTTPConnection):
    """A connection to the address, through its proxy."""

    def __init__(self, address: Address) -> None:
        super().__init__(address.connect_host, address.connect_port)
        self.address = address
        self.response_class = functools.partial(_Response, self)  # type: ignore[assignment]
        self.deadline: Optional[float] = None
        self.live: Optional[socket.socket] = None  # the socket, also while only the answer holds it
        self.used = 0.0

    def left(self) -> Optional[float]:
        if self.deadline is None:
            return None
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise socket.timeout("timed out")
        return left

    def connect(self) -> None:
        address = self.address
        if address.socket:
            sock = socket.socket(socket.AF_UNIX)
            sock.settimeout(self.left())
            sock.connect(address.socket)
        else:
            sock = socket.create_connection((self.host, self.port), self.left())
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = self.live = sock
        if address.tunnel:
            sock.settimeout(self.left())
            _tunnel(sock, address)
        if address.tls:
            self.sock = self.live = address.tls.wrap_socket(sock, server_hostname=address.host)

    def fresh(self) -> bool:
        """Whether the connection can be used again: it is open, and the server has not closed it."""
        if self.sock is None or time.monotonic() - self.used > MAX_IDLE:
            return False
        if not hasattr(select, "poll"):
            return not select.select([self.sock], [], [], 0)[0]
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        return not poll.poll(0)

    def shut(self) -> None:
        """Wake a thread that uses the connection."""
        sock = self.live
        if sock is not None:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it was not connected yet, or is closed


def _tunnel(sock: socket.socket, address: Address) -> None:
    sock.sendall(address.connect_request())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = sock.recv(1)  # one at a time: what follows belongs to TLS
        head += byte
        if not byte or len(head) > 1 << 16:
            raise http.client.BadStatusLine("the proxy closed the connection")
    if head.split(None, 2)[1:2] != [b"200"]:
        raise http.client.BadStatusLine("the proxy refused: " + head.split(b"\r\n")[0].decode("latin-1"))


class Transport:
    """Sends requests of any thread."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._local = threading.local()

    def close(self) -> None:
        """Close the connection of this thread."""
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()

    def send(self, request: Send) -> Answer:
        """Return the whole answer."""
        with _Exchange(self, request, keep=True) as exchange:
            response = exchange.response
            if (response.length or 0) > MAX_ANSWER:
                raise Unreachable("the answer is larger than 64 MiB")
            answer = Answer(response.status, exchange.headers, response.read())
            exchange.kept = not response.will_close
            return answer

    def open(self, request: Send) -> "_Exchange":
        """Return an exchange whose answer is read line by line, on a connection of its own."""
        return _Exchange(self, request, keep=False)


class _Exchange:
    """A request and its answer. Everything that goes wrong within is Unreachable, TimedOut or Cancelled."""

    def __init__(self, transport: Transport, request: Send, keep: bool) -> None:
        self._transport, self._request, self._keep = transport, request, keep
        self._cancel: Optional[Cancel] = request.cancel
        self.kept = False

    def __enter__(self) -> "_Exchange":
        local = self._transport._local
        connection = getattr(local, "connection", None) if self._keep else None
        if self._keep:
            local.connection = None  # a hook may call within a call
        if connection is None or not connection.fresh():
            if connection is not None:
                connection.close()
            connection = _Connection(self._transport.address)
        self.connection: _Connection = connection
        try:
            if self._cancel:
                self._cancel.add(connection.shut)
            self._send()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def _send(self) -> None:
        connection, request, address = self.connection, self._request, self._transport.address
        self.extend(request.left)
        if connection.sock is None:
            connection.connect()
            if self._cancel and self._cancel.cancelled:  # shut() may have come before there was a socket
                raise OSError("cancelled")
        assert connection.sock is not None
        connection.sock.settimeout(connection.left())
        headers = {"Host": address.authority, **request.headers}
        if address.proxied and not address.tunnel:
            headers.update(address.proxy_headers)
        connection.putrequest(request.method, address.target(request.path), skip_host=True, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        if request.body is not None or request.method != "GET":
            connection.putheader("Content-Length", str(len(request.body or b"")))
        try:
            connection.endheaders(request.body)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the server may have refused the request before it read all of it
        self.response = connection.getresponse()
        self.headers = {name.lower(): value for name, value in self.response.getheaders()}

    def extend(self, seconds: float) -> None:
        """Allow some more time from now."""
        self.connection.deadline = time.monotonic() + seconds

    def lines(self, silence: float) -> Iterator[bytes]:
        """Return the lines of the answer as they come. Between them, nothing may come for some seconds."""
        self.extend(silence)
        while line := self.response.readline(MAX_ANSWER):
            yield line
            self.extend(silence)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        connection = self.connection
        if self._cancel:
            self._cancel.remove(connection.shut)
        if self.kept and error is None:
            connection.used = time.monotonic()
            self._transport._local.connection = connection
        else:
            if hasattr(self, "response"):
                self.response.close()
            connection.close()
        if isinstance(error, (OSError, http.client.HTTPException, ValueError)) and not isinstance(error, PenstockError):
            if self._cancel and self._cancel.cancelled:
                raise Cancelled("the call was cancelled") from error
            shown = self._transport.address.shown
            if isinstance(error, (socket.timeout, TimeoutError)):
                raise TimedOut(f"no answer from {shown} in time") from error
            if isinstance(error, ValueError) and not isinstance(error, http.client.HTTPException):
                raise Invalid(str(error), "headers") from error
            raise unanswered(shown, error) from error
