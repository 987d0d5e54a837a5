import asyncio
import signal
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path
from unittest import mock

from fake import Engine, Server, answer, problem, until  # finds the package

import penstock
from penstock import AsyncPenstock, Invalid, Penstock

HERE = Path(__file__).resolve().parent


class Sync(unittest.TestCase):
    def start(self, handler, lease=30.0, jobs=1, **options):
        self.engine, self.events = Engine(lease), []
        self.engine.add(*[{"id": f"j{n}", "payload": n} for n in range(jobs)])
        self.server = Server(self.engine.serve)
        self.addCleanup(self.server.stop)
        client = Penstock(self.server.url, on=self.events.append)
        self.addCleanup(client.close)
        worker = client.worker("q", handler, **options).start()
        self.addCleanup(worker.stop, 0)
        return worker

    def kinds(self):
        return [event["kind"] for event in self.events]

    def settled(self, count=1):
        until(lambda: len(self.engine.settled) >= count)
        return self.engine.settled[0]

    def test_outcomes(self):
        outcomes = {
            "j0": (lambda: None, {"outcome": "delivered"}),
            "j1": (lambda: 7, {"outcome": "delivered"}),
            "j2": (lambda: penstock.retry(5, "again"), {"outcome": "retry", "after": "5000ms", "reason": "again"}),
            "j3": (lambda: penstock.dead("bad"), {"outcome": "dead", "reason": "bad"}),
            "j4": (lambda: penstock.throttled("30s", lane_only=True), {"outcome": "throttled", "after": "30s", "lane_only": True}),
            "j5": (penstock.released, {"outcome": "released"}),
            "j6": (lambda: penstock.held("?"), {"outcome": "held", "reason": "?"}),
            "j7": (lambda: penstock.down("503"), {"outcome": "down", "reason": "503"}),
        }
        self.start(lambda job: outcomes[job.id][0](), jobs=8)
        self.settled(8)
        got = {job.pop("id"): job for job in self.engine.settled}
        for job in got.values():
            job.pop("lease")
        self.assertEqual(got, {id: fields for id, (_, fields) in outcomes.items()})

    def test_a_raised_outcome_counts_too(self):
        def handler(job):
            raise penstock.dead("bad")

        self.start(handler)
        self.assertEqual(self.settled()["outcome"], "dead")

    def test_an_error_means_retry(self):
        def handler(job):
            raise ValueError("boom " + "é" * 1000)

        self.start(handler)
        job = self.settled()
        self.assertEqual(job["outcome"], "retry")
        self.assertTrue(job["reason"].startswith("ValueError: boom"))
        self.assertLessEqual(len(job["reason"].encode()), 512)
        self.assertIn("handler_failed", self.kinds())

    def test_misuse_is_reported(self):
        for raised in (lambda job: sys.exit(3), self.raise_text):
            self.start(raised)
            self.assertEqual(self.settled()["outcome"], "retry")
            self.assertIn("misuse", self.kinds())

    @staticmethod
    def raise_text(job):
        raise "text"

    def test_settling_twice(self):
        problems = []

        def handler(job):
            job.settle()
            try:
                job.settle(penstock.dead("x"))
            except Invalid as error:
                problems.append(error)
            return penstock.dead("x")

        self.start(handler)
        self.assertEqual(self.settled()["outcome"], "delivered")
        until(lambda: "misuse" in self.kinds())
        self.assertEqual((len(problems), len(self.engine.settled)), (1, 1))

    def test_leases_are_extended(self):
        done = threading.Event()
        self.start(lambda job: done.wait(20) and None, lease=0.6)
        until(lambda: self.engine.extends >= 3)
        done.set()
        self.assertEqual(self.settled()["outcome"], "delivered")
        self.assertNotIn("lost", self.kinds())

    def test_a_lost_lease_stops_the_work(self):
        seen = []
        worker = self.start(lambda job: seen.append(job.lost.wait(20)), lease=0.5)
        until(lambda: worker.stats["started"])
        with self.engine.lock:
            self.engine.leases.clear()
        until(lambda: seen == [True])
        until(lambda: worker.stats["lost"] == 1)
        worker.stop()
        self.assertEqual(self.engine.settled, [])
        self.assertIn("lost", self.kinds())

    def test_a_stale_settlement_is_dropped(self):
        def handler(job):
            self.engine.leases.clear()

        worker = self.start(handler)
        until(lambda: worker.stats["lost"] == 1)
        worker.stop()
        self.assertEqual(worker.stats, {"started": 1, "settled": 0, "lost": 1})

    def test_a_settlement_is_repeated(self):
        unknown = lambda request: answer(200, {"jobs": [  # noqa: E731
            {"id": job["id"], "status": 504, "reason": "outcome_unknown"} for job in request.json["jobs"]]})
        gate = threading.Event()
        worker = self.start(lambda job: gate.wait(10) and None, jobs=3)
        self.engine.fail["settle"] = [None, problem(503, "unavailable", retry_after_ms=1), unknown]
        gate.set()
        self.settled(3)
        worker.stop()
        self.assertEqual(worker.stats["settled"], 3)

    def test_one_bad_settlement_does_not_keep_the_others(self):
        def picky(request):
            bad = any(job["id"] == "j1" for job in request.json["jobs"])
            return problem(400, "invalid_field") if bad else self.engine.do_settle(request)

        gate = threading.Event()
        worker = self.start(lambda job: gate.wait(10) and None, jobs=3)
        self.engine.fail["settle"] = [picky] * 20
        gate.set()
        self.settled(2)
        worker.stop()
        self.assertEqual({job["id"] for job in self.engine.settled}, {"j0", "j2"})
        self.assertIn("settle_failed", self.kinds())

    def test_max_time_gives_up(self):
        self.start(lambda job: job.lost.wait(20), lease=5, max_time=0.2)
        job = self.settled()
        self.assertEqual(job["outcome"], "retry")
        self.assertIn("abandoned", self.kinds())

    def stop(self, end):
        """Stop a worker while a handler runs, and return the settlement."""
        begun = threading.Event()

        def handler(job):
            begun.set()
            return end(job)

        worker = self.start(handler)
        self.assertTrue(begun.wait(10))
        worker.stop(grace=0.05)
        self.assertEqual(worker.stats, {"started": 1, "settled": 1, "lost": 0})
        return self.engine.settled[0]

    def test_a_result_counts_after_the_grace(self):
        settled = self.stop(lambda job: penstock.dead("too late") if job.lost.wait(20) else None)
        self.assertEqual((settled["outcome"], settled["reason"]), ("dead", "too late"))

    def test_a_handler_that_never_ends_is_retried_after_the_grace(self):
        never = threading.Event()
        self.addCleanup(never.set)
        settled = self.stop(lambda job: never.wait(60))
        self.assertEqual((settled["outcome"], settled["reason"]), ("retry", "the worker stopped"))

    def test_jobs_that_come_while_the_worker_stops_are_released(self):
        go, gate, asked = threading.Event(), threading.Event(), threading.Event()

        def late(request):
            asked.set()
            gate.wait(10)
            return self.engine.do_leases(request)

        patch = mock.patch("penstock._worker.LINGER", 20)  # for slow machines
        patch.start()
        self.addCleanup(patch.stop)
        worker = self.start(lambda job: go.wait(10) and None, concurrency=1)
        until(lambda: worker.stats["started"])
        self.engine.fail["leases"] = [late]
        go.set()
        self.settled()
        self.assertTrue(asked.wait(10))
        self.engine.add({"id": "second", "payload": 1})
        worker._client._background()._loop.call_soon_threadsafe(worker._worker._stopping.set)
        gate.set()
        worker.stop()
        self.assertEqual([job["outcome"] for job in self.engine.settled], ["delivered", "released"])
        self.assertEqual(worker.stats, {"started": 1, "settled": 2, "lost": 0})

    @staticmethod
    def extend_now(worker):
        for lease in list(worker._worker._leases.values()):
            lease.due = 0.0

    def test_leases_are_extended_until_the_settlement_is_answered(self):
        def slow(request):
            asked.set()
            gate.wait(10)
            return self.engine.do_settle(request)

        asked, go, gate = threading.Event(), threading.Event(), threading.Event()
        worker = self.start(lambda job: go.wait(10) and None)
        self.engine.fail["settle"] = [slow]
        go.set()
        self.assertTrue(asked.wait(10))
        self.extend_now(worker)
        until(lambda: self.engine.extends)
        gate.set()
        worker.stop()
        self.assertEqual(worker.stats, {"started": 1, "settled": 1, "lost": 0})

    def test_a_settlement_that_hangs_does_not_keep_the_others(self):
        def hang(request):
            if request.json["jobs"][0]["id"] != "j0" or len(self.engine.settled) == 2:
                return self.engine.do_settle(request)
            hung.set()
            request.gone.wait(20)
            return None

        gate, hung = threading.Event(), threading.Event()
        worker = self.start(lambda job: job.id == "j0" or gate.wait(10) and None, lease=6.0, jobs=3)
        self.engine.fail["settle"] = [hang] * 20
        self.assertTrue(hung.wait(10))
        gate.set()
        self.settled(3)
        worker.stop()
        self.assertEqual(self.engine.settled[-1]["id"], "j0")

    def test_the_worker_survives_any_error(self):
        def trace():
            raise KeyError("span")

        gate = threading.Event()
        worker = self.start(lambda job: gate.wait(10) and None, lease=30.0)
        until(lambda: worker.stats["started"])
        self.engine.fail["extend"] = [answer(200, b"[]"), answer(200, {"jobs": [{"expires_in_ms": "x"}]})]
        self.engine.fail["settle"] = [answer(200, {"jobs": [7]}), answer(200, {"jobs": []}), answer(200, b"7")]
        self.extend_now(worker)
        until(lambda: self.kinds().count("extend_failed") == 2)
        core = worker._client.core
        core.trace = trace
        until(lambda: self.kinds().count("extend_failed") >= 3)
        gate.set()
        until(lambda: "settle_failed" in self.kinds())
        core.trace = None
        self.settled()
        worker.stop()
        self.assertEqual((worker.stats["settled"], worker.stats["lost"]), (1, 0))

    def test_stop_lets_handlers_end(self):
        begun, go = threading.Event(), threading.Event()

        def handler(job):
            begun.set()
            go.wait(10)

        worker = self.start(handler)
        self.assertTrue(begun.wait(10))
        stopping = threading.Thread(target=worker.stop)
        stopping.start()
        go.set()
        stopping.join(10)
        self.assertEqual(self.engine.settled[0]["outcome"], "delivered")

    def test_no_more_jobs_than_the_concurrency(self):
        running, most, gate = [0], [0], threading.Semaphore(0)
        lock = threading.Lock()

        def handler(job):
            with lock:
                running[0] += 1
                most[0] = max(most[0], running[0])
            gate.acquire(timeout=10)
            with lock:
                running[0] -= 1

        worker = self.start(handler, jobs=12, concurrency=3)
        until(lambda: running[0] == 3)
        gate.release(12)
        self.settled(12)
        worker.stop()
        self.assertEqual(most[0], 3)

    def test_a_server_that_is_away_is_asked_again(self):
        worker = self.start(lambda job: None, jobs=0)
        self.engine.fail["leases"] = [None, problem(503, "unavailable"), answer(502, b"bad gateway"), answer(200, b"?")]
        self.engine.add({"id": "a", "payload": 1})
        self.engine.add({"id": "b", "payload": 1})
        self.settled(2)
        worker.stop()

    def test_a_queue_may_come_later(self):
        worker = self.start(lambda job: None, jobs=0)
        self.engine.fail["leases"] = [problem(404, "unknown_queue")] * 2
        self.engine.add({"id": "a", "payload": 1})
        self.settled()
        worker.stop()

    def test_payloads_as_they_were_appended(self):
        texts = []
        self.start(lambda job: texts.append((job.payload_text, job.payload_bytes)), jobs=0)
        for n, text in enumerate(('{"n": 12345678901234567890.10, "a": [1]}', '"é"', "9" * 5000)):
            self.engine.add({"id": f"t{n}", "_text": text})
        self.settled(3)
        self.assertIn(('{"n": 12345678901234567890.10, "a": [1]}',) * 1, [t[:1] for t in texts])
        self.assertTrue(all(text.encode() == raw for text, raw in texts))

    def test_bad_options(self):
        with Penstock("http://127.0.0.1:1") as client:
            self.assertRaises(Invalid, client.worker, "q", print, concurrency=0)
            self.assertRaises(Invalid, client.worker, "q", None)

    def test_sigterm_stops_gracefully(self):
        engine = Engine()
        engine.add({"id": "a", "payload": 1})
        program = (
            "import sys; sys.path.insert(0, sys.argv[2]); import penstock, time\n"
            "def handler(job):\n    print('started', flush=True)\n    time.sleep(0.3)\n"
            "penstock.Penstock(sys.argv[1]).worker('q', handler).run()\nprint('ended', flush=True)\n"
        )
        with Server(engine.serve) as server:
            command = [sys.executable, "-c", program, server.url, str(HERE.parent / "src")]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                self.assertEqual(process.stdout.readline(), "started\n")
                process.send_signal(signal.SIGTERM)
                self.assertEqual(process.stdout.read(), "ended\n")
            self.assertEqual((process.returncode, engine.settled[0]["outcome"]), (0, "delivered"))


class Async(unittest.TestCase):
    def work(self, handler, check, lease=30.0, **options):
        events = []
        engine = Engine(lease)
        engine.add({"id": "a", "payload": 1})

        async def main(server):
            async with AsyncPenstock(server.url, on=events.append) as client:
                async with client.worker("q", handler, **options) as worker:
                    deadline = time.monotonic() + 60
                    while not check(engine, worker, [event["kind"] for event in events]):
                        self.assertLess(time.monotonic(), deadline, (events, engine.settled))
                        await asyncio.sleep(0.005)
                return worker

        with Server(engine.serve) as server:
            return engine, asyncio.run(main(server))

    def test_coroutines(self):
        async def handler(job):
            await asyncio.sleep(0)

        engine, worker = self.work(handler, lambda engine, worker, kinds: engine.settled)
        self.assertEqual(engine.settled[0]["outcome"], "delivered")

    def test_a_lost_lease_cancels_the_task(self):
        cancelled = []

        async def handler(job):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(job.lost.is_set())
                raise

        def check(engine, worker, kinds):
            if worker.stats["started"]:
                engine.leases.clear()
            return "lost" in kinds and cancelled

        engine, _ = self.work(handler, check, lease=0.4)
        self.assertEqual((cancelled, engine.settled), ([True], []))

    def test_a_blocked_loop_is_reported(self):
        async def handler(job):
            await asyncio.sleep(0.05)
            time.sleep(0.8)

        self.work(handler, lambda engine, worker, kinds: "blocked" in kinds and not worker._leases, lease=0.6)

    def test_tasks_are_cancelled_after_the_grace(self):
        async def handler(job):
            await asyncio.Event().wait()

        engine, worker = self.work(handler, lambda engine, worker, kinds: worker.stats["started"], grace=0.05)
        self.assertEqual((engine.settled[0]["outcome"], engine.settled[0]["reason"]), ("retry", "the worker stopped"))
        self.assertEqual(worker.stats, {"started": 1, "settled": 1, "lost": 0})

    def test_the_result_of_a_cancelled_task_counts(self):
        async def handler(job):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return penstock.held("half done")

        engine, _ = self.work(handler, lambda engine, worker, kinds: worker.stats["started"], grace=0.05)
        self.assertEqual(engine.settled[0]["outcome"], "held")

    def test_a_handler_that_ends_its_own_task(self):
        async def handler(job):
            raise asyncio.CancelledError

        engine, _ = self.work(handler, lambda engine, worker, kinds: engine.settled)
        self.assertEqual(engine.settled[0]["outcome"], "retry")


if __name__ == "__main__":
    unittest.main()
