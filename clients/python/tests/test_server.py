"""Tests with a real server. They need PENSTOCK_BIN."""
import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import fake  # noqa: F401
from penstock import Invalid, Penstock, Unreachable
from penstock._core import Answer
from penstock.testing import start_penstock

FAKE_PROGRAM = """#!/usr/bin/env python3
import json, os, sys
assert sys.argv[1:] == ["up", "--ephemeral", "--log-level", "warn", "--clock", "virtual"], sys.argv
print(json.dumps({"url": "http://127.0.0.1:1", "token": "t", "pid": os.getpid()}), flush=True)
sys.stdin.read()
"""


class Finding(unittest.TestCase):
    def program(self, text):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        file = Path(folder.name) / "penstock"
        file.write_text(text)
        file.chmod(0o755)
        return mock.patch.dict(os.environ, {"PENSTOCK_BIN": str(file)})

    def test_a_server_ends_with_its_block(self):
        with self.program(FAKE_PROGRAM), start_penstock(clock="virtual") as server:
            self.assertEqual((server.url, server.token), ("http://127.0.0.1:1", "t"))
        self.assertEqual(server._process.returncode, 0)

    def test_a_program_that_does_not_start(self):
        with self.program("#!/bin/sh\necho nonsense\n"):
            self.assertRaises(Unreachable, start_penstock)

    def test_the_clock_may_take_its_time(self):
        calls = []
        with self.program(FAKE_PROGRAM), start_penstock(clock="virtual") as server:
            with mock.patch.object(Penstock, "_call", lambda self, c, o: calls.append(c) or Answer(200, {}, value={"now": "x"})):
                self.assertEqual(server.advance("10m"), "x")
        self.assertEqual((calls[0].timeout, calls[0].body), (300, {"advance": "10m"}))

    def test_no_program(self):
        with mock.patch.dict(os.environ, {"PENSTOCK_BIN": "", "PATH": ""}):
            self.assertRaises(Invalid, start_penstock)


@unittest.skipUnless(os.environ.get("PENSTOCK_BIN"), "PENSTOCK_BIN is not set")
class RealServer(unittest.TestCase):
    def test_jobs_from_append_to_delivered(self):
        with start_penstock() as server, server.client() as client:
            client.put_queue("q", {"rate": "1000/s", "pull": True})
            ids = [result.id for result in client.append_stream("q", ({"payload": {"n": n}} for n in range(200)))]
            with client.worker("q", lambda job: None, concurrency=50):
                for id in ids:
                    self.assertEqual(client.wait("q", id, timeout=20)["state"], "delivered")
            client.put_queue("turns", {"rate": "1000/s", "pull": True})  # a queue of turns must hold nothing else
            with client.turn("turns"):
                pass

    def test_the_clock_moves_only_when_told(self):
        with start_penstock(clock="virtual") as server, server.client() as client:
            client.put_queue("q", {"rate": "1/m", "pull": True})
            client.append_many("q", [{"id": "a", "payload": 1}, {"id": "b", "payload": 1}])
            with client.worker("q", lambda job: None):
                client.wait("q", "a", timeout=10)
                server.advance("10m")
                client.wait("q", "b", timeout=10)


if __name__ == "__main__":
    unittest.main()
