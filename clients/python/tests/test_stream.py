import asyncio
import json
import unittest

from both import both
from fake import Engine, Server, chunked, problem, until
from penstock import AsyncPenstock, Invalid, Penstock, Refused, Unreachable


def line(number, job, status=202, **more):
    return json.dumps({"line": number, "status": status, "id": job["id"], **more}).encode() + b"\n"


def jobs_of(request):
    return [json.loads(text) for text in request.body.splitlines()]


def accept(request, **more):
    return chunked(*[line(n, job, state="waiting", **more) for n, job in enumerate(jobs_of(request), 1)])


def some(count, prefix="j"):
    return ({"id": f"{prefix}{n}", "payload": n} for n in range(count))


class Streams:
    def test_every_job_gets_one_result(self):
        engine = Engine()
        server, client = self.serve(engine.serve)
        results = list(client.append_stream("q", some(3500)))
        self.assertEqual(sorted(r.id for r in results), sorted(f"j{n}" for n in range(3500)))
        self.assertTrue(all(r.error is None and r.state == "waiting" for r in results))
        self.assertTrue(all(len(jobs_of(r)) <= 1000 for r in server.requests))

    def test_the_source_is_not_read_ahead(self):
        _, client = self.serve(Engine().serve)
        taken, answered = [0], [0]

        def source():
            for job in some(200):
                taken[0] += 1
                self.assertLessEqual(taken[0] - answered[0], 8 + 1)
                yield job

        for _ in client.append_stream("q", source(), in_flight=8):
            answered[0] += 1
        self.assertEqual((taken[0], answered[0]), (200, 200))

    def test_a_refused_job_is_sent_again(self):
        refused = set()

        def serve(request):
            out = []
            for n, job in enumerate(jobs_of(request), 1):
                if job["id"] in ("j1", "j3") and job["id"] not in refused:
                    refused.add(job["id"])
                    out.append(line(n, job, 429 if job["id"] == "j1" else 503, reason="full", retry_after_ms=20))
                else:
                    out.append(line(n, job, state="waiting"))
            return chunked(*out)

        server, client = self.serve(serve)
        results = list(client.append_stream("q", some(5)))
        self.assertEqual(len(results), 5)
        self.assertTrue(all(r.error is None for r in results))
        self.assertIn(results[-1].id, ("j1", "j3"))

    def test_other_refusals_are_results(self):
        def serve(request):
            return chunked(*[line(n, job, 409, reason="conflict") if job["id"] == "j1" else line(n, job, 200, state="waiting")
                             for n, job in enumerate(jobs_of(request), 1)])

        _, client = self.serve(serve)
        results = {r.id: r for r in client.append_stream("q", [*some(3), {"id": "bad"}])}
        self.assertEqual((results["j1"].error.reason, results["j1"].error.status), ("conflict", 409))
        self.assertTrue(results["j0"].duplicate)
        self.assertIsInstance(results["bad"].error, Invalid)

    def test_retry_for_0_never_repeats(self):
        def serve(request):
            return chunked(*[line(n, job, 429, reason="full", retry_after_ms=10) for n, job in enumerate(jobs_of(request), 1)])

        server, client = self.serve(serve)
        result, = client.append_stream("q", some(1), retry_for=0)
        self.assertEqual(result.error.retry_after, 0.01)
        self.assertEqual(len(server.requests), 1)

    def test_a_job_whose_time_is_over_gets_its_error(self):
        def serve(request):
            return chunked(*[line(n, job, 429, reason="full", retry_after_ms=60_000) for n, job in enumerate(jobs_of(request), 1)])

        _, client = self.serve(serve)
        result, = client.append_stream("q", some(1), retry_for=5)
        self.assertEqual(result.error.reason, "full")

    def test_a_broken_stream_sends_only_what_was_not_answered(self):
        sent = []

        def serve(request):
            jobs = jobs_of(request)
            sent.append([job["id"] for job in jobs])
            if len(jobs) > 3 and not any("x" in ids for ids in sent):
                sent.append(["x"])
                half = line(4, jobs[3])[:10]
                return [chunked(*[line(n, job, state="waiting") for n, job in enumerate(jobs[:3], 1)], half, end=False)]
            return accept(request)

        _, client = self.serve(serve)
        results = client.append_many("q", list(some(10)))
        self.assertEqual([r.id for r in results], [f"j{n}" for n in range(10)])
        self.assertTrue(all(r.error is None for r in results))
        self.assertEqual(sent[-1], [f"j{n}" for n in range(3, 10)])

    def test_a_stopping_server_is_no_refusal(self):
        left = [True]

        def serve(request):
            if left.pop() if left else False:
                jobs = jobs_of(request)
                return chunked(line(1, jobs[0], 503, reason="stopping", retry_after_ms=1))
            return accept(request)

        _, client = self.serve(serve)
        self.assertTrue(all(r.error is None for r in client.append_stream("q", some(4))))

    def test_a_token_may_expire_within_a_stream(self):
        tokens = iter(["old", "new"])

        def serve(request):
            if request.headers["authorization"] == "Bearer old":
                return chunked(line(1, jobs_of(request)[0], 401, reason="unauthenticated"))
            return accept(request)

        server, client = self.serve(serve, token=lambda: next(tokens))
        self.assertTrue(all(r.error is None for r in client.append_many("q", list(some(4)))))
        self.assertEqual(len(server.requests), 2)

    def test_a_whole_refusal(self):
        server, client = self.serve(problem(404, "unknown_queue"))
        self.assertEqual([r.error.reason for r in client.append_stream("q", some(2))], ["unknown_queue"] * 2)
        self.assertRaises(Refused, client.append_many, "q", list(some(2)))
        self.assertEqual(client.append_many("q", []), [])

    def test_the_error_of_the_source_comes_after_its_results(self):
        def source():
            yield from some(3)
            raise KeyError("source")

        _, client = self.serve(accept)
        ids = []
        with self.assertRaises(KeyError):
            for result in client.append_stream("q", source()):
                ids.append(result.id)
        self.assertEqual(len(ids), 3)

    def test_no_server(self):
        client = self.connect(url="http://127.0.0.1:1")
        result, = client.append_stream("q", some(1), retry_for=0.3)
        self.assertIsInstance(result.error, Unreachable)

    def test_answers_are_read_while_the_request_is_sent(self):
        # The server reads no further until its answers are read, as soon as the buffers are full.
        filler = "x" * 4000
        server, client = self.serve(lambda request: accept(request, detail=filler))
        payloads = [{"id": str(n), "payload": "y" * 900} for n in range(1000)]
        self.assertEqual(len(list(client.append_many("q", payloads))), 1000)


StreamsSync, StreamsAsync = both(Streams)


class BlockingSources(unittest.TestCase):
    def test_jobs_are_sent_while_the_source_blocks(self):
        with Server(accept) as server, Penstock(server.url) as client:

            def source():
                for n in range(3):
                    yield {"id": str(n), "payload": n}
                    until(lambda: sum(len(jobs_of(request)) for request in server.requests) == n + 1)

            self.assertEqual([result.id for result in client.append_stream("q", source())], ["0", "1", "2"])


class AsyncSources(unittest.TestCase):
    def test_a_slow_source_does_not_keep_its_jobs(self):
        async def main(server):
            go = asyncio.Event()

            async def source():
                yield {"id": "first", "payload": 1}
                await go.wait()  # set by the result of the first job
                yield {"id": "second", "payload": 1}

            ids = []
            async with AsyncPenstock(server.url) as client:
                async for result in client.append_stream("q", source()):
                    ids.append(result.id)
                    go.set()
            self.assertEqual(ids, ["first", "second"])

        with Server(accept) as server:
            asyncio.run(asyncio.wait_for(main(server), 10))

    def test_a_stream_that_is_left_ends_its_requests(self):
        def hang(request):
            request.gone.wait(10)

        async def main(server):
            async with AsyncPenstock(server.url) as client:
                stream = client.append_stream("q", some(3))
                reading = asyncio.ensure_future(stream.__anext__())
                while not server.requests:
                    await asyncio.sleep(0.001)
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
                await stream.aclose()
                while not server.requests[0].gone.is_set():
                    await asyncio.sleep(0.001)

        with Server(hang) as server:
            asyncio.run(asyncio.wait_for(main(server), 10))


if __name__ == "__main__":
    unittest.main()
