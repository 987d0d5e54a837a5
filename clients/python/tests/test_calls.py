import asyncio
import os
import tempfile
import threading
import time
import unittest
from pathlib import Path
from unittest import mock

from both import Blocking, both
from fake import Server, answer, chunked, problem, script, until
from penstock import AsyncPenstock, Cancel, Cancelled, Invalid, Penstock, Refused, TimedOut, Unreachable

OK = answer(202, {"id": "a", "state": "waiting", "position": 1, "eta": {"at": "2026-01-02T15:04:05.1Z", "exact": True}, "new": 1})


class Calls:
    def test_append(self):
        server, client = self.serve(OK, token="secret")
        result = client.append("a/b", {"id": "a", "payload": {"x": 1}}, traceparent="00-1-2-01")
        self.assertEqual((result.id, result.state, result.position, result.duplicate), ("a", "waiting", 1, False))
        self.assertEqual((result.eta.exact, result.eta.at.year, result.raw["new"]), (True, 2026, 1))
        request = server.requests[0]
        self.assertEqual((request.method, request.path), ("POST", "/v1/queues/a%2Fb/jobs"))
        self.assertEqual(request.headers["authorization"], "Bearer secret")
        self.assertEqual(request.headers["traceparent"], "00-1-2-01")
        self.assertRegex(request.headers["user-agent"], r"^penstock-python/\d")

    def test_connections_are_kept(self):
        ports = set()

        def serve(request):
            return OK

        server, client = self.serve(serve)
        handle = server.handle
        server.handle = lambda handler: (ports.add(handler.client_address), handle(handler))
        for _ in range(5):
            client.append("q", {"payload": 1})
        self.assertEqual(len(ports), 1)

    def test_a_lost_answer_is_asked_for_again_with_the_same_id(self):
        server, client = self.serve(script(None, [OK[:40]], OK))
        client.append("q", {"payload": 1})
        self.assertEqual(len({request.json["id"] for request in server.requests}), 1)
        self.assertEqual(len(server.requests), 3)
        self.assertEqual([event["kind"] for event in self.events], ["retry", "retry"])

    def test_refusals(self):
        _, client = self.serve(problem(429, "full", retry_after_ms=1500, id="a", detail="no room"))
        with self.assertRaises(Refused) as caught:
            client.append("q", {"payload": 1})
        error = caught.exception
        self.assertEqual((error.status, error.reason, error.retry_after, error.id), (429, "full", 1.5, "a"))

    def test_five_tries_at_most(self):
        server, client = self.serve(script(None))
        with self.assertRaises(Unreachable):
            client.get("q", "a")
        self.assertEqual(len(server.requests), 5)

    def test_a_pause_beyond_the_timeout_is_not_begun(self):
        server, client = self.serve(problem(503, "unavailable", retry_after_ms=60_000))
        begun = time.monotonic()
        self.assertRaises(Refused, client.get, "q", "a", timeout=5)
        self.assertLess(time.monotonic() - begun, 30)
        self.assertEqual(len(server.requests), 1)

    def test_a_slow_answer_times_out(self):
        def drip(request):
            yield OK[:60]
            for byte in OK[60:]:
                if request.gone.wait(0.05):
                    return
                yield bytes([byte])

        _, client = self.serve(drip)
        begun = time.monotonic()
        self.assertRaises(TimedOut, client.append, "q", {"payload": 1}, timeout=0.3)
        self.assertLess(time.monotonic() - begun, 8)

    def test_redirects_are_not_followed(self):
        server, client = self.serve(answer(307, b"", location="http://127.0.0.1:1/"), token="secret")
        with self.assertRaises(Refused) as caught:
            client.get("q", "a")
        self.assertEqual((caught.exception.status, caught.exception.reason), (307, "http_error"))
        self.assertEqual(len(server.requests), 1)

    def test_a_take_is_never_repeated(self):
        server, client = self.serve(script(None))
        self.assertRaises(Unreachable, client.take, "r", "k")
        self.assertEqual(len(server.requests), 1)

    def test_a_take_that_is_refused_is_a_result(self):
        fields = {"RateLimit": '"r";r=0;t=2', "RateLimit-Policy": '"r";q=2;w=60', "Retry-After": "2"}
        _, client = self.serve(script(
            answer(200, {"allowed": True, "limit": 2, "remaining": 1, "retry_after_ms": 0, "reset_after_ms": 10, "receipt": "x"}),
            problem(429, "limit_reached", fields, limit=2, remaining=0, retry_after_ms=1200, reset_after_ms=2000),
        ))
        taken = client.take("r", "k")
        self.assertEqual((taken.allowed, taken.remaining, taken.receipt), (True, 1, "x"))
        taken = client.take("r", "k", wait=1)
        self.assertEqual((taken.allowed, taken.limit, taken.retry_after, taken.reset_after), (False, 2, 1.2, 2.0))
        self.assertEqual(taken.headers["RateLimit"], '"r";r=0;t=2')

    def test_pages(self):
        _, client = self.serve(script(
            answer(200, {"jobs": [{"id": "a"}, {"id": "b"}], "next": "b"}), answer(200, {"jobs": [{"id": "c"}]})
        ))
        self.assertEqual([job["id"] for job in client.list("q", "dead", reason="x y")], ["a", "b", "c"])

    def test_wait_ends_with_the_job(self):
        jobs = [{"id": "a", "state": state} for state in ("waiting", "leased", "delivered")]
        server, client = self.serve(script(*[answer(200, job) for job in jobs]))
        self.assertEqual(client.wait("q", "a")["state"], "delivered")
        self.assertEqual(len(server.requests), 3)

    def test_wait_has_an_end(self):
        _, client = self.serve(answer(200, {"id": "a", "state": "waiting"}))
        self.assertRaises(TimedOut, client.wait, "q", "a", timeout=0.2)

    def test_a_queue_is_put_with_conditions(self):
        server, client = self.serve(answer(200, {"revision": 8}))
        client.put_queue("q", {"rate": "1/s"}, if_match=7)
        client.put_queue("q", {"rate": "1/s"}, if_none_match=True)
        client.apply({"queues": {"a": {"rate": "1/s"}}, "rules": [{"name": "r", "algorithm": "meter"}]})
        heads = [(r.headers.get("if-match"), r.headers.get("if-none-match"), r.path) for r in server.requests]
        self.assertEqual(heads, [
            ('"7"', None, "/v1/queues/q"), (None, "*", "/v1/queues/q"), (None, None, "/v1/rules/r"), (None, None, "/v1/queues/a"),
        ])

    def test_a_server_without_throttle_is_tolerated(self):
        server, client = self.serve(script(problem(404, "not_found"), problem(404, "unknown_queue")))
        self.assertEqual(client.throttle("q", 30), {})
        self.assertEqual(self.events[0]["kind"], "throttle_unsupported")
        self.assertRaises(Refused, client.throttle, "q", 30)
        self.assertEqual(server.requests[0].json, {"after": "30000ms"})

    def test_events_continue_where_they_broke(self):
        first = [b"retry: 2000\n\n", b"id: x-1\nevent: reset\ndata: {\"as_of\": 1,\ndata: \"queues\": []}\n\n", b": beat\n\n"]
        server, client = self.serve(script(
            chunked(*first, end=False, kind="text/event-stream"),
            chunked(b"id: x-2\nevent: paused\ndata: {}\n\n", b"event: end\ndata: {\"status\":503,\"reason\":\"stopping\"}\n\n"),
            chunked(b"event: info\ndata: {}\n\n"), problem(404, "unknown_queue"),
        ))
        kinds = []
        with self.assertRaises(Refused):
            for event in client.events("q"):
                kinds.append((event.kind, event.id))
        self.assertEqual(kinds, [("reset", "x-1"), ("paused", "x-2"), ("info", "")])
        self.assertEqual([r.headers.get("last-event-id") for r in server.requests], [None, "x-1", "x-2", "x-2"])

    def test_a_callback_for_the_token_is_asked_again_after_a_401(self):
        tokens = iter(["old", "new"])
        denied = problem(401, "unauthenticated")
        server, client = self.serve(script(denied, OK, OK), token=lambda: next(tokens))
        client.append("q", {"payload": 1})
        client.append("q", {"payload": 1})
        self.assertEqual([r.headers["authorization"] for r in server.requests], ["Bearer old", "Bearer new", "Bearer new"])

    def test_a_401_is_repeated_once(self):
        server, client = self.serve(problem(401, "unauthenticated"), token=lambda: "same")
        self.assertRaises(Refused, client.get, "q", "a")
        self.assertEqual(len(server.requests), 2)
        server, client = self.serve(problem(401, "unauthenticated"), token="same")
        self.assertRaises(Refused, client.get, "q", "a")
        self.assertEqual(len(server.requests), 1)

    def test_a_token_file_is_read_again_when_it_changes(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "token"
            file.write_text("first\n")
            with mock.patch.dict(os.environ, {"PENSTOCK_TOKEN_FILE": str(file)}):
                os.environ.pop("PENSTOCK_TOKEN", None)
                server, client = self.serve(OK)
            client.append("q", {"payload": 1})
            file.write_text("second-token")
            client.append("q", {"payload": 1})
            self.assertEqual([r.headers["authorization"] for r in server.requests], ["Bearer first", "Bearer second-token"])
            file.unlink()
            self.assertRaises(Invalid, client.append, "q", {"payload": 1})

    def test_a_token_in_the_environment_goes_before_a_file(self):
        with mock.patch.dict(os.environ, {"PENSTOCK_TOKEN": "explicit", "PENSTOCK_TOKEN_FILE": "/does/not/exist"}):
            server, client = self.serve(OK)
        client.append("q", {"payload": 1})
        self.assertEqual(server.requests[0].headers["authorization"], "Bearer explicit")

    def test_unix_sockets(self):
        with tempfile.TemporaryDirectory() as folder:
            server = Server(lambda request: OK, unix=f"{folder}/s.sock")
            self.addCleanup(server.stop)
            client = self.connect(url=f"unix://{folder}/s.sock")
            self.assertEqual(client.append("q", {"payload": 1}).id is not None, True)
            self.assertEqual(server.requests[0].headers["host"], "localhost")

    def test_a_proxy_gets_the_whole_url(self):
        proxy = Server(lambda request: OK)
        self.addCleanup(proxy.stop)
        environment = {"http_proxy": f"http://me:pass@127.0.0.1:{proxy.port}", "no_proxy": "other.test"}
        with mock.patch.dict(os.environ, environment):
            client = self.connect(url="http://penstock.test:8080")
            client.append("q", {"payload": 1})
            self.assertFalse(self.connect(url="http://other.test").core.address.proxied)
            self.assertFalse(self.connect(url="http://127.0.0.1:9").core.address.proxied)
        request = proxy.requests[0]
        self.assertEqual(request.path, "http://penstock.test:8080/v1/queues/q/jobs")
        self.assertEqual(request.headers["host"], "penstock.test:8080")
        self.assertEqual(request.headers["proxy-authorization"], "Basic bWU6cGFzcw==")

    def test_a_proxy_is_asked_for_a_tunnel(self):
        proxy = Server(lambda request: answer(403, b""))
        self.addCleanup(proxy.stop)
        with mock.patch.dict(os.environ, {"https_proxy": f"http://127.0.0.1:{proxy.port}"}):
            client = self.connect(url="https://penstock.test")
            self.assertRaises(Unreachable, client.take, "r", "k", timeout=5)
        self.assertEqual((proxy.requests[0].method, proxy.requests[0].path), ("CONNECT", "penstock.test:443"))

    def test_a_paced_call_reports_the_pause_that_the_provider_asks_for(self):
        def serve(request):
            if request.path == "/provider":
                return answer(429, b"", Retry_After="7")
            return answer(200, {"waited_ms": 1, "until": "x"})

        server, client = self.serve(serve)
        with self.assertRaises(Exception) as caught:
            client.paced("q", wait=5)(server.url + "/provider") if isinstance(client, Penstock) else client.run(
                client._client.paced("q", wait=5)(server.url + "/provider"))
        self.assertEqual(caught.exception.code, 429)
        caught.exception.close()
        last = server.requests[-1]
        self.assertEqual((last.path, last.json["after"]), ("/v1/queues/q/throttle", "7000ms"))

    def test_a_provider_that_names_no_time_gets_a_second(self):
        def serve(request):
            if request.path == "/provider":
                return answer(next(statuses), b"")
            return answer(200, {"waited_ms": 1, "until": "x"})

        statuses = iter((429, 503))
        server, client = self.serve(serve)
        for _ in range(2):
            with self.assertRaises(Exception) as caught:
                client.paced("q", wait=5)(server.url + "/provider") if isinstance(client, Penstock) else client.run(
                    client._client.paced("q", wait=5)(server.url + "/provider"))
            caught.exception.close()
        sent = [request.json for request in server.requests if request.path.endswith("/throttle")]
        self.assertEqual([body["after"] for body in sent], ["1000ms"])

    def test_callbacks_that_fail(self):
        def fail():
            raise KeyError("x")

        for options in ({"token": fail}, {"trace": fail}, {"trace": lambda: 7}):
            server, client = self.serve(OK, **options)
            self.assertRaises(Invalid, client.append, "q", {"payload": 1})
            self.assertEqual(server.requests, [])

    def test_wait_looks_at_least_every_five_seconds(self):
        job = {"id": "a", "state": "waiting", "eta": {"at": "2026-01-02T15:05:05Z", "exact": True}}
        _, client = self.serve(script(
            answer(200, job, Date="Fri, 02 Jan 2026 15:04:05 GMT"), answer(200, {"id": "a", "state": "delivered"})))
        target, pauses = getattr(client, "_client", client), []

        def sleep(pause, cancel):
            pauses.append(pause)

        async def asleep(pause, cancel):
            pauses.append(pause)

        target._sleep = sleep if target is client else asleep
        client.wait("q", "a")
        self.assertEqual(pauses, [5.0])

    def test_headers_cannot_be_injected(self):
        server, client = self.serve(OK)
        self.assertRaises(Invalid, client.append, "q", {"payload": 1}, traceparent="x\r\nEvil: 1")
        self.assertRaises(Invalid, self.connect, url="http://x", token="a\nb")
        self.assertEqual(server.requests, [])


CallsSync, CallsAsync = both(Calls)


class Misuse(unittest.TestCase):
    def test_urls(self):
        for bad in ("127.0.0.1:8080", "ftp://a", "http://", "http://a?x=1", "http://a#b", "http://u:p@a", "http://a:99999"):
            with self.subTest(url=bad):
                self.assertRaises(Invalid, Penstock, bad)

    def test_an_async_callback_needs_the_other_client(self):
        async def token():
            return "x"

        with Server(lambda request: OK) as server:
            source = token()
            with Penstock(server.url, token=lambda: source) as client:
                self.assertRaises(Invalid, client.get, "q", "a")
            source.close()
            client = Blocking(url=server.url, token=token)
            client.append("q", {"payload": 1})
            client.close()
            self.assertEqual(server.requests[0].headers["authorization"], "Bearer x")


class Cancelling(unittest.TestCase):
    def hang(self, request):
        self.assertTrue(request.gone.wait(10))
        return None

    def test_a_cancelled_turn_hangs_up(self):
        with Server(self.hang) as server, Penstock(server.url) as client:
            cancel, errors = Cancel(), []

            def turn():
                try:
                    client.wait_turn("q", cancel=cancel)
                except Cancelled as error:
                    errors.append(error)

            thread = threading.Thread(target=turn)
            thread.start()
            until(lambda: server.requests)
            cancel.cancel()
            thread.join(10)
            self.assertEqual(len(errors), 1)
            until(server.requests[0].gone.is_set)
            self.assertRaises(Cancelled, client.wait_turn, "q", cancel=cancel)

    def test_a_cancelled_task_hangs_up(self):
        async def main(server):
            async with AsyncPenstock(server.url) as client:
                task = asyncio.ensure_future(client.wait_turn("q"))
                while not server.requests:
                    await asyncio.sleep(0.001)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task

        with Server(self.hang) as server:
            asyncio.run(main(server))
            until(server.requests[0].gone.is_set)

    def test_a_cancelled_stream_ends(self):
        with Server(self.hang) as server, Penstock(server.url) as client:
            cancel = Cancel()
            threading.Thread(target=lambda: (until(lambda: server.requests), cancel.cancel())).start()
            self.assertRaises(Cancelled, list, client.append_stream("q", [{"payload": 1}], cancel=cancel))


class Turns(unittest.TestCase):
    def test_with_turn(self):
        import penstock

        def serve(request):
            return answer(200, {"waited_ms": 1500, "until": "x"})

        with Server(serve) as server, Penstock(server.url) as client:
            with client.turn("q", wait="10s") as turn:
                self.assertEqual(turn.waited, 1.5)
                turn.throttled(20, "busy")
            with self.assertRaises(penstock.Outcome), client.turn("q"):
                raise penstock.throttled(30)
            self.assertEqual([r.path for r in server.requests], ["/v1/queues/q/turns", "/v1/queues/q/throttle"] * 2)
            self.assertEqual(server.requests[1].json, {"after": "20000ms", "reason": "busy"})
            with self.assertRaises(penstock.Outcome), client.turn("q") as turn:
                turn.throttled()
                raise penstock.throttled()
            self.assertEqual([r.json for r in server.requests[-2:]], [{"after": "1000ms"}] * 2)


if __name__ == "__main__":
    unittest.main()
