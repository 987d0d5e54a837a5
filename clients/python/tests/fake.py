"""A small HTTP server for the tests, which plays Penstock and misbehaves on request."""
import json
import os
import socket
import socketserver
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Dict

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "src"))


@dataclass
class Request:
    method: str
    path: str
    headers: Dict[str, str]
    body: bytes = b""
    gone: threading.Event = field(default_factory=threading.Event)  # the client has disconnected

    @property
    def json(self):
        return json.loads(self.body or b"null")


def answer(status=200, body=None, **headers):
    """Return the bytes of a whole answer."""
    raw = body if isinstance(body, bytes) else json.dumps({} if body is None else body).encode()
    kind = "application/json" if status < 300 else "application/problem+json"
    fields = {"content-type": kind, "content-length": str(len(raw)), **headers}
    head = f"HTTP/1.1 {status} X\r\n" + "".join(f"{k.replace('_', '-')}: {v}\r\n" for k, v in fields.items())
    return head.encode() + b"\r\n" + raw


def problem(status, reason, headers=None, **more):
    return answer(status, {"status": status, "reason": reason, "title": reason, **more}, **(headers or {}))


def chunked(*parts, end=True, kind="application/x-ndjson"):
    """Return a chunked answer that the server closes. Without its end it is truncated."""
    out = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n".encode()
    for part in parts:
        out += f"{len(part):x}\r\n".encode() + part + b"\r\n"
    return out + (b"0\r\n\r\n" if end else b"")


class Server:
    """Answers each request with what ``serve(request)`` returns: bytes, an iterable of bytes, or None to hang up."""

    def __init__(self, serve, unix=None):
        self.serve, self.requests, self.lock = serve, [], threading.Lock()
        outer = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                outer.handle(self)

        kind = socketserver.ThreadingUnixStreamServer if unix else socketserver.ThreadingTCPServer
        kind.allow_reuse_address, kind.daemon_threads = True, True
        kind.request_queue_size = 100
        self._server = kind(unix or ("127.0.0.1", 0), Handler)
        if not unix:
            self.port = self._server.server_address[1]
            self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def handle(self, handler):
        connection = handler.request
        if hasattr(socket, "TCP_NODELAY") and connection.family == socket.AF_INET:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while True:
                first = handler.rfile.readline()
                if not first:
                    return
                method, path, _ = first.decode("latin-1").split(" ", 2)
                headers = {}
                while (line := handler.rfile.readline().strip()):
                    name, _, value = line.decode("latin-1").partition(":")
                    headers[name.strip().lower()] = value.strip()
                body = handler.rfile.read(int(headers.get("content-length", 0)))
                request = Request(method, path, headers, body)
                with self.lock:
                    self.requests.append(request)
                threading.Thread(target=self._watch, args=(connection, request), daemon=True).start()
                reply = self.serve(request)
                if reply is None:
                    return
                for part in [reply] if isinstance(reply, bytes) else reply:
                    connection.sendall(part)
                if reply is not None and (not isinstance(reply, bytes) or b"Connection: close" in reply):
                    return
        except OSError:
            pass  # the client has gone
        finally:
            # Half-close first: a reset would throw away what the client has not read yet.
            try:
                connection.shutdown(socket.SHUT_WR)
            except OSError:
                pass

    @staticmethod
    def _watch(connection, request):
        try:
            if not connection.recv(1, socket.MSG_PEEK):
                request.gone.set()
        except OSError:
            request.gone.set()

    def stop(self):
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.stop()


def script(*replies):
    """Return a serve function that gives one reply after another; the last one again and again."""
    left = list(replies)

    def serve(request):
        reply = left.pop(0) if len(left) > 1 else left[0]
        return reply(request) if callable(reply) else reply

    return serve


def until(what, seconds=60):
    """Wait for a condition. The time only ends a test that hangs."""
    deadline = time.monotonic() + seconds
    while not what():
        if time.monotonic() > deadline:
            raise AssertionError("the condition did not come true")
        time.sleep(0.002)


class Engine:
    """Plays the jobs, leases and takes of a server."""

    def __init__(self, lease=30.0):
        self.lock, self.jobs, self.order, self.settled, self.extends = threading.Condition(), {}, [], [], 0
        self.lease, self.leases, self.number = lease, {}, 0
        self.fail = {}  # action: replies to give first

    def serve(self, request):
        _, _, _, queue, *rest = request.path.split("?")[0].split("/")
        action = rest[0] if rest else ""
        scripted = self.fail.get(action)
        if scripted:
            reply = scripted.pop(0)
            return reply(request) if callable(reply) else reply
        return getattr(self, "do_" + action)(request)

    def add(self, *jobs):
        with self.lock:
            for job in jobs:
                self._append(job)
            self.lock.notify_all()

    def _append(self, job):
        id = job["id"]
        if id in self.jobs:
            return 200
        self.jobs[id] = job
        self.order.append(id)
        return 202

    def do_(self, request):
        return answer(200, {"revision": 1})

    def do_jobs(self, request):
        if request.method == "GET":
            id = request.path.rsplit("/", 1)[1]
            done = any(job["id"] == id for job in self.settled)
            return answer(200, {"id": id, "state": "delivered" if done else "waiting"})
        if "ndjson" in request.headers.get("content-type", ""):
            lines = []
            with self.lock:
                for n, line in enumerate(request.body.splitlines()):
                    job = json.loads(line)
                    status = self._append(job)
                    lines.append({"line": n + 1, "status": status, "id": job["id"], "state": "waiting", "position": n + 1})
                self.lock.notify_all()
            return chunked(*[json.dumps(line).encode() + b"\n" for line in lines])
        with self.lock:
            status = self._append(request.json)
            self.lock.notify_all()
        return answer(status, {"id": request.json["id"], "state": "waiting", "position": len(self.order)})

    def do_leases(self, request):
        deadline = time.monotonic() + 30
        with self.lock:
            while not self.order and time.monotonic() < deadline and not request.gone.is_set():
                self.lock.wait(0.02)
            if request.gone.is_set():
                return None
            ids = [self.order.pop(0) for _ in range(min(len(self.order), request.json["max"]))]
            jobs = [self._leased(id) for id in ids]
        # A payload is passed on as it stands.
        texts = []
        for job in jobs:
            payload = job.pop("_payload")
            texts.append(json.dumps(job)[:-1] + f', "payload": {payload}}}')
        return answer(200, ('{"jobs": [' + ", ".join(texts) + "]}").encode())

    def _leased(self, id):
        self.number += 1
        lease = f"lease-{self.number}"
        self.leases[id] = lease
        job = self.jobs[id]
        return {"id": id, "lease": lease, "attempt": 1, "cost": 1, "content_type": "application/json",
                "appended_at": "2026-01-02T15:04:05Z", "expires_at": "2026-01-02T15:04:35Z",
                "expires_in_ms": int(self.lease * 1000), "_payload": job.get("_text") or json.dumps(job.get("payload"))}

    def do_settle(self, request):
        out = []
        with self.lock:
            for job in request.json["jobs"]:
                if self.leases.get(job["id"]) != job["lease"]:
                    out.append({"id": job["id"], "stale": True})
                else:
                    del self.leases[job["id"]]
                    self.settled.append(job)
                    out.append({"id": job["id"], "state": "delivered"})
        return answer(200, {"jobs": out})

    def do_extend(self, request):
        with self.lock:
            self.extends += 1
            out = [{"id": j["id"], "expires_in_ms": int(self.lease * 1000) if self.leases.get(j["id"]) == j["lease"] else 0}
                   for j in request.json["jobs"]]
        return answer(200, {"jobs": out})

    def do_turns(self, request):
        return answer(200, {"waited_ms": 12})

    def do_throttle(self, request):
        return answer(200, {"until": "2026-01-02T15:04:05Z"})
