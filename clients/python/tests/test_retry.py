import unittest
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime

import fake  # noqa: F401  (finds the package)
from penstock import Invalid, Refused, TimedOut, Unreachable
from penstock._jobs import elements, encode_job, members
from penstock._retry import MAX_TRIES, backoff, header_seconds, pause_before_retry, refusal
from penstock._units import moment, path, span


def refused(status, reason, after=None):
    return Refused(status, reason, retry_after=after)


class RetryPolicy(unittest.TestCase):
    def test_only_repeatable_calls_that_may_succeed_are_repeated(self):
        for error, again in (
            (Unreachable("x"), True), (TimedOut("x"), False), (refused(502, "http_error"), True),
            (refused(503, "unavailable"), True), (refused(504, "outcome_unknown"), True), (refused(500, "internal"), False),
            (refused(429, "crowded"), True), (refused(429, "over_share"), True), (refused(429, "app_limit"), True),
            (refused(429, "full"), False), (refused(429, "no_turn"), False), (refused(409, "conflict"), False),
        ):
            with self.subTest(error=error):
                self.assertEqual(pause_before_retry(error, 1, True) is not None, again)
                self.assertIsNone(pause_before_retry(error, 1, False))
                self.assertIsNone(pause_before_retry(error, MAX_TRIES, True))

    def test_the_server_decides_the_shortest_pause(self):
        self.assertGreaterEqual(pause_before_retry(refused(503, "unavailable", 7), 1, True), 7)

    def test_backoff_grows_up_to_ten_seconds(self):
        for failures, most in ((1, 0.1), (2, 0.2), (5, 1.6), (50, 10)):
            self.assertLessEqual(max(backoff(failures) for _ in range(200)), most)
        self.assertGreater(max(backoff(50) for _ in range(200)), 5)


class RetryAfter(unittest.TestCase):
    def test_milliseconds_win_over_the_header(self):
        error = refusal(429, {"retry-after": "9"}, b'{"reason": "full", "retry_after_ms": 1500}')
        self.assertEqual((error.status, error.reason, error.retry_after), (429, "full", 1.5))

    def test_header_in_seconds_or_as_a_date(self):
        self.assertEqual(header_seconds("3"), 3)
        date = format_datetime(datetime.now(timezone.utc) + timedelta(seconds=60), usegmt=True)
        self.assertAlmostEqual(header_seconds(date), 60, delta=2)
        self.assertEqual(header_seconds("Thu, 01 Jan 1970 00:00:00 GMT"), 0)
        self.assertEqual(header_seconds("Thu, 01 Jan 1970 00:01:00 GMT", "Thu, 01 Jan 1970 00:00:30 GMT"), 30)
        error = refusal(503, {"retry-after": "Fri, 02 Jan 2026 15:04:15 GMT", "date": "Fri, 02 Jan 2026 15:04:05 GMT"}, b"")
        self.assertEqual(error.retry_after, 10)
        for nonsense in (None, "", "soon", "-1", "1.5"):
            self.assertIsNone(header_seconds(nonsense))

    def test_an_answer_of_a_proxy(self):
        error = refusal(502, {"retry-after": "2"}, b"<html>bad gateway</html>")
        self.assertEqual((error.reason, error.detail, error.retry_after), ("http_error", "<html>bad gateway</html>", 2))
        self.assertEqual(refusal(503, {}, b"").reason, "http_error")
        self.assertEqual(refusal(503, {}, b"[1]").reason, "http_error")


class Conversions(unittest.TestCase):
    def test_instants_have_nanoseconds_and_zones(self):
        self.assertEqual(moment("2026-01-02T15:04:05.123456789Z").microsecond, 123456)
        self.assertEqual(moment("2026-01-02T15:04:05.1+01:00").isoformat(), "2026-01-02T15:04:05.100000+01:00")
        self.assertRaises(ValueError, moment, "yesterday")

    def test_spans(self):
        self.assertEqual([span(30), span(0.25), span("1h"), span(timedelta(minutes=1))], ["30000ms", "250ms", "1h", "60000ms"])
        self.assertRaises(Invalid, span, float("nan"))

    def test_names_are_escaped(self):
        self.assertEqual(path("queues", "a/b ?#ü"), "/v1/queues/a%2Fb%20%3F%23%C3%BC")
        for bad in ("", ".", "..", None, "\ud800"):
            self.assertRaises(Invalid, path, "queues", bad)


class Jobs(unittest.TestCase):
    def test_ids_are_generated(self):
        first, second = encode_job({"payload": 1})[0], encode_job({"payload": 1})[0]
        self.assertNotEqual(first, second)

    def test_json_text_is_sent_unchanged(self):
        _, body = encode_job({"id": "a", "payload_json": '{"n": 12345678901234567890.10}'})
        self.assertEqual(body, b'{"payload":{"n": 12345678901234567890.10},"id":"a"}')
        _, line = encode_job({"id": "a", "payload_json": '[1,\n2]'}, one_line=True)
        self.assertNotIn(b"\n", line)
        self.assertEqual(encode_job({"id": "a", "payload": None})[1], b'{"id":"a","payload":null}')

    def test_misuse_is_found_before_anything_is_sent(self):
        for job in (
            {}, {"payload": 1, "payload_json": "1"}, {"payload_json": '1, "id": "b"'}, {"payload": float("nan")},
            {"payload": "\ud800"}, {"payload": object()}, {"payload": 1, "id": 7}, 7,
            {"payload": 1, "not_before": datetime(2026, 1, 1)},
        ):
            with self.subTest(job=job):
                self.assertRaises(Invalid, encode_job, job)

    def test_texts_of_members(self):
        text = '{ "a" : [1, {"b": 2}], "n": 1.10 , "s": "x,}" }'
        self.assertEqual({k: v[1] for k, v in members(text).items()}, {"a": '[1, {"b": 2}]', "n": "1.10", "s": '"x,}"'})
        self.assertEqual([t for _, t in elements('[ 1.0 ,{"a": 1},[]]')], ["1.0", '{"a": 1}', "[]"])
        self.assertEqual((members("{}"), list(elements("[ ]"))), ({}, []))
        self.assertEqual(members('{"n": %s}' % ("9" * 5000))["n"][1], "9" * 5000)


if __name__ == "__main__":
    unittest.main()
