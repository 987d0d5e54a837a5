import email.message
import http.client
import io
import json
import types
import unittest
import urllib.error
import urllib.request
from datetime import timedelta

from both import both
from fake import Server, answer
from penstock import Invalid, Refused, problem_of, proxy_headers

PROBLEM = {
    "type": "https://example.com/no_turn", "title": "no turn", "status": 429, "reason": "no_turn", "detail": "later",
    "retry_after_ms": 1500, "error": {"message": "no turn: later", "type": "penstock", "code": "no_turn"},
}
KIND = {"Content-Type": "application/problem+json"}


class Urls:
    def test_urls(self):
        for url, queue, want in (
            ("http://127.0.0.1:8080", "openai", "http://127.0.0.1:8080/proxy/openai"),
            ("https://penstock.test:443/below/", "group.child", "https://penstock.test/below/proxy/group.child"),
            ("http://[::1]:8080", "a/../b?c#d", "http://[::1]:8080/proxy/a%2F..%2Fb%3Fc%23d"),
            ("unix:///run/penstock.sock", "openai", "http://localhost/proxy/openai"),
        ):
            with self.subTest(url):
                self.assertEqual(self.connect(url=url).proxy_url(queue), want)

    def test_invalid_names(self):
        client = self.connect(url="http://127.0.0.1:8080")
        for name in ("", ".", "..", None, "\ud800"):
            with self.subTest(repr(name)), self.assertRaises(Invalid):
                client.proxy_url(name)


UrlsSync, UrlsAsync = both(Urls)


class Headers(unittest.TestCase):
    def test_headers(self):
        self.assertEqual(proxy_headers(), {})
        self.assertEqual(
            proxy_headers(lane="a b", cost=3, priority=0, wait=1.5, retry="throttled"),
            {"Penstock-Lane": "a b", "Penstock-Cost": "3", "Penstock-Priority": "0", "Penstock-Wait": "1500ms",
             "Penstock-Retry": "throttled"},
        )
        self.assertEqual(proxy_headers(costs={"tokens": 1800, "images": 2}), {"Penstock-Costs": "tokens=1800, images=2"})
        self.assertEqual(proxy_headers(wait="2m"), {"Penstock-Wait": "2m"})
        self.assertEqual(proxy_headers(wait=timedelta(minutes=2)), {"Penstock-Wait": "120000ms"})

    def test_text_that_libraries_send_differently(self):
        for lane in ("größe", "a\r\nX: y", "\x7f"):
            with self.subTest(lane), self.assertRaises(Invalid) as caught:
                proxy_headers(lane=lane)
            self.assertEqual(caught.exception.field, "lane")


def response(body=PROBLEM, headers=KIND, **more):
    """Return a response of requests or httpx, as far as it matters here."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return types.SimpleNamespace(status_code=429, headers=headers, content=content, **more)


class Problems(unittest.TestCase):
    def check(self, found):
        self.assertIsInstance(found, Refused)
        self.assertEqual((found.status, found.reason, found.retry_after), (429, "no_turn", 1.5))

    def test_a_response(self):
        self.check(problem_of(response()))
        self.check(problem_of(response(headers={"content-type": "Application/Problem+JSON; charset=utf-8"})))
        self.check(problem_of(response(headers={**KIND, "Server-Timing": "penstockish;dur=1, edge"})))

    def test_an_error_with_a_response(self):
        error = RuntimeError("429")
        error.response, error.status_code, error.code = response(), 429, "no_turn"  # as openai's
        self.check(problem_of(error))
        error.response = None
        self.assertIsNone(problem_of(error))

    def test_receivers_answers(self):
        several = email.message.Message()
        for name, value in (*KIND.items(), ("Server-Timing", "db;dur=3"), ("Server-Timing", "penstock;dur=0.1")):
            several[name] = value
        for headers in (several, {**KIND, "server-timing": "db;dur=3, penstock;dur=0.1"}, {"Content-Type": "application/json"}, {}):
            self.assertIsNone(problem_of(response(headers=headers)))

    def test_what_is_not_a_refusal(self):
        for body in (b"", b"slow down", [1], {"title": "Too Many Requests", "status": 429}):
            self.assertIsNone(problem_of(response(body)))
        self.assertIsNone(problem_of(None))
        self.assertIsNone(problem_of(ValueError("no response")))

    def test_a_stream_that_is_not_read(self):
        class Stream:
            status_code, headers = 429, KIND

            @property
            def content(self):
                raise RuntimeError("ResponseNotRead")

            def read(self):
                return json.dumps(PROBLEM).encode()

        self.check(problem_of(Stream()))

    def test_a_stream_that_was_consumed(self):
        class Consumed:
            status_code, headers = 429, KIND

            @property
            def content(self):
                raise RuntimeError("The content for this response was already consumed")

        self.assertIsNone(problem_of(Consumed()))

    def test_a_body_that_is_awaited(self):
        class Awaited:
            status, headers, content = 429, KIND, io.BytesIO()

            async def read(self):
                return b""

        self.assertRaises(Invalid, problem_of, Awaited())
        self.check(problem_of(Awaited(), json.dumps(PROBLEM).encode()))

    def test_urllib(self):
        with Server(lambda request: answer(429, PROBLEM)) as server:
            with self.assertRaises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(server.url)
            with caught.exception as error:
                self.check(problem_of(error))

    def test_urllib_keeps_a_receivers_body(self):
        with Server(lambda request: answer(429, PROBLEM, server_timing="penstock;dur=0.1")) as server:
            with self.assertRaises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(server.url)
            with caught.exception as error:
                self.assertIsNone(problem_of(error))
                self.assertEqual(json.loads(error.read()), PROBLEM)

    def test_http_client(self):
        with Server(lambda request: answer(429, PROBLEM)) as server:
            connection = http.client.HTTPConnection("127.0.0.1", server.port)
            self.addCleanup(connection.close)
            connection.request("GET", "/")
            self.check(problem_of(connection.getresponse()))


if __name__ == "__main__":
    unittest.main()
