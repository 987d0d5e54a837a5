import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

from fake import Engine, Server, answer, until

DRIVER = str(Path(__file__).resolve().parent / "driver.py")


class Driver:
    options = ()

    def start(self, serve):
        server = Server(serve)
        self.addCleanup(server.stop)
        environment = {**os.environ, "PENSTOCK_URL": server.url, "PENSTOCK_TOKEN": "t"}
        self.process = subprocess.Popen(
            [sys.executable, DRIVER, *self.options], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, env=environment,
        )
        self.addCleanup(self.process.stdout.close)
        self.addCleanup(self.process.wait)
        self.addCleanup(self.process.stdin.close)
        self.n = 0
        return server

    def send(self, call, options=None, **args):
        self.n += 1
        request = {"n": self.n, "call": call, "args": args, "options": options or {}}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self.n

    def ask(self, call, options=None, **args):
        n = self.send(call, options, **args)
        reply = json.loads(self.process.stdout.readline())
        self.assertEqual(reply.pop("n"), n)
        return reply.get("ok", reply)

    def test_calls(self):
        engine = Engine()
        self.start(engine.serve)
        result = self.ask("append", queue="q", job={"id": "a", "payload": {"x": 1}})
        self.assertEqual((result["id"], result["state"], result["duplicate"]), ("a", "waiting", False))
        self.assertEqual(self.ask("append", queue="q", job={"id": "a", "payload": 1})["duplicate"], True)
        jobs = [{"id": "b", "payload": 1}, {"id": "c", "payload": 2}]
        many = self.ask("append_many", queue="q", jobs=jobs)["results"]
        self.assertEqual([result["id"] for result in many], ["b", "c"])
        stream = self.ask("append_stream", queue="q", count=2500, prefix="s", payload_size=20)
        self.assertEqual(stream, {"accepted": 2500, "duplicates": 0, "failed": 0})
        self.assertEqual(self.ask("turn", queue="q", wait=5), {"waited": 0.012, "costs": {}})
        number = self.ask("worker", queue="q", concurrency=50, mode="echo")["worker"]
        until(lambda: len(engine.settled) == 2503)
        stopped = self.ask("worker_stop", worker=number, grace=5)
        self.assertEqual((stopped["started"], stopped["settled"], stopped["lost"]), (2503, 2503, 0))
        self.assertIn('"' + "x" * 20 + '"', stopped["payloads"])
        self.assertEqual(self.ask("append", queue="q", job={"id": 7, "payload": 1})["error"]["kind"], "invalid")
        self.assertIsInstance(self.ask("hooks")["events"], list)
        self.process.stdin.close()
        self.assertEqual(self.process.wait(10), 0)

    def test_a_cancelled_call(self):
        def hang(request):
            request.gone.wait(10)

        server = self.start(hang)
        turn = self.send("turn", queue="q", wait=30)
        until(lambda: server.requests)
        cancel = self.send("cancel", of=turn)
        replies = {reply["n"]: reply for reply in (json.loads(self.process.stdout.readline()) for _ in range(2))}
        self.assertEqual(replies[turn]["error"], {"kind": "cancelled"})
        self.assertEqual(replies[cancel]["ok"], {})
        until(server.requests[0].gone.is_set)

    def test_a_timeout(self):
        self.start(lambda request: request.gone.wait(10) and None)
        self.assertEqual(self.ask("get", {"timeout": 0.2}, queue="q", id="a")["error"]["kind"], "timeout")

    def test_a_paced_get(self):
        def serve(request):
            if request.path == "/provider":
                return answer(503, b"", Retry_After="3")
            return answer(200, {"waited_ms": 1})

        server = self.start(serve)
        self.assertEqual(self.ask("paced_get", queue="q", url=server.url + "/provider", wait=5), {"status": 503})
        self.assertEqual(server.requests[-1].path, "/v1/queues/q/throttle")


class DriverSync(Driver, unittest.TestCase):
    pass


class DriverAsync(Driver, unittest.TestCase):
    options = ("--asyncio",)


if __name__ == "__main__":
    unittest.main()
