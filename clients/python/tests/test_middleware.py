import asyncio
import json
import time
import unittest

from fake import Server, answer, problem, script
from penstock import AsyncPenstock, Invalid, Penstock
from penstock.middleware import ASGILimit, WSGILimit

ALLOWED = answer(200, {"allowed": True, "limit": 2, "remaining": 1}, RateLimit='"r";r=1', RateLimit_Policy='"r";q=2;w=60')
LEASED = answer(200, {"allowed": True, "limit": 2, "remaining": 1, "lease": "L"})
FIELDS = {"RateLimit": '"r";r=0;t=2', "RateLimit-Policy": '"r";q=2;w=60'}
REFUSED = problem(429, "limit_reached", FIELDS, limit=2, remaining=0, retry_after_ms=1200)


def wsgi(client, **options):
    """Call a limited WSGI application, and return its status, headers and body."""
    got = {}

    def app(environ, start_response):
        start_response("200 OK", [("X-App", "1")])
        return [b"hello"]

    def start(status, headers, *more):
        got.update(status=int(status.split()[0]), headers={name.lower(): value for name, value in headers})

    body = b"".join(WSGILimit(app, client, "r", lambda environ: environ.get("user"), **options)({"user": "u"}, start))
    return got["status"], got["headers"], body


def asgi(url, **options):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-app", b"1")]})
        await send({"type": "http.response.body", "body": b"hello"})

    async def main():
        sent = []

        async def send(message):
            sent.append(message)

        async with AsyncPenstock(url, on=options.pop("on", None)) as client:
            limited = ASGILimit(app, client, "r", lambda scope: scope["user"], **options)
            await limited({"type": "http", "user": "u"}, None, send)
        headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return sent[0]["status"], headers, sent[1]["body"]

    return asyncio.run(main())


class Middleware(unittest.TestCase):
    def both(self, reply, **options):
        """Yield the answer and the requests with each kind of middleware."""
        events = []
        with Server(script(reply)) as server, Penstock(server.url, on=events.append) as client:
            yield wsgi(client, **options), server.requests, events
        events = []
        with Server(script(reply)) as server:
            yield asgi(server.url, on=events.append, **options), server.requests, events

    def test_allowed_requests_pass_with_the_fields(self):
        for (status, headers, body), requests, _ in self.both(ALLOWED, cost=3):
            self.assertEqual((status, body, headers["x-app"], headers["ratelimit"]), (200, b"hello", "1", '"r";r=1'))
            self.assertEqual(requests[0].json, {"key": "u", "cost": 3})

    def test_refused_requests_get_429(self):
        for (status, headers, body), _, _ in self.both(REFUSED):
            self.assertEqual((status, headers["retry-after"], headers["ratelimit"]), (429, "2", FIELDS["RateLimit"]))
            self.assertEqual(headers["ratelimit-policy"], FIELDS["RateLimit-Policy"])
            self.assertEqual(headers["content-type"], "application/problem+json")
            self.assertEqual(json.loads(body)["reason"], "limit_reached")
            self.assertRegex(json.loads(body)["type"], "^https:.*/problems/limit_reached$")

    def test_without_an_answer_requests_pass_unless_refused(self):
        for (status, _, _), _, events in self.both(None):
            self.assertEqual((status, events[0]["kind"]), (200, "rule_unavailable"))
        for (status, headers, _), _, _ in self.both(None, on_error="refuse"):
            self.assertEqual((status, headers["retry-after"]), (503, "1"))

    def test_a_server_that_hangs_keeps_requests_for_the_timeout_only(self):
        def hang(request):
            request.gone.wait(20)

        begun = time.monotonic()
        for (status, _, _), requests, events in self.both(hang, timeout=0.2, wait=0.1):
            self.assertEqual((status, events[0]["kind"]), (200, "rule_unavailable"))
            self.assertEqual(requests[0].json["wait"], "100ms")
        self.assertLess(time.monotonic() - begun, 15)

    def test_a_place_is_given_back(self):
        for (status, _, body), requests, _ in self.both(LEASED):
            self.assertEqual((status, body), (200, b"hello"))
            self.assertEqual([r.path.rsplit("/", 1)[-1] for r in requests], ["take", "refund"])
            self.assertEqual(requests[1].json, {"key": "u", "lease": "L"})

    def test_bad_options(self):
        self.assertRaises(Invalid, WSGILimit, None, None, "r", str, on_error="maybe")


if __name__ == "__main__":
    unittest.main()
