"""The programs on the page are those in examples/, and they run."""
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

from fake import Engine, Server, answer, until

ROOT = Path(__file__).resolve().parents[1]
REPOSITORY = ROOT.parents[1]


class Page(unittest.TestCase):
    def test_the_page_shows_the_examples_exactly(self):
        page = (REPOSITORY / "docs" / "python.md").read_text("utf-8")
        shown = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)
        self.assertEqual(sorted(shown), sorted(file.read_text("utf-8") for file in (ROOT / "examples").glob("*.py")))
        self.assertTrue(page.split("\n")[2].startswith("After this page you "))
        words = [word for word in page.split() if re.search(r"\w", word)]
        self.assertLessEqual(len(words), 620)


class Examples(unittest.TestCase):
    """With PENSTOCK_BIN they run on a real server too."""

    def environment(self, url, token="t"):
        return {**os.environ, "PENSTOCK_URL": url, "PENSTOCK_TOKEN": token or "", "PYTHONPATH": str(ROOT / "src")}

    def run_example(self, environment, name, *args):
        command = [sys.executable, str(ROOT / "examples" / name), *args]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True).stdout

    def check_all(self, environment):
        self.assertIn("delivered", self.run_example(environment, "start.py"))
        self.assertEqual(self.run_example(environment, "producer.py"), "done\n")
        with Server(lambda request: answer(200, b"ok")) as provider:
            self.assertEqual(self.run_example(environment, "paced.py", provider.url), "200\n" * 10)

    def test_on_a_fake_server(self):
        with Server(Engine().serve) as server:
            self.check_all(self.environment(server.url))

    @unittest.skipUnless(os.environ.get("PENSTOCK_BIN"), "PENSTOCK_BIN is not set")
    def test_on_a_real_server(self):
        from penstock.testing import start_penstock

        with start_penstock() as server:
            self.check_all(self.environment(server.url, server.token))

    def test_workers(self):
        for command, queue in (
            ([str(ROOT / "examples" / "worker.py")], "resize"),
            ([str(REPOSITORY / "examples" / "worker.py"), "URL", "resize"], "resize"),
        ):
            engine = Engine()
            engine.add({"id": "a", "payload": {"image": 7}}, {"id": "b", "payload": {}})
            with self.subTest(command=command), Server(engine.serve) as server:
                command = [server.url if part == "URL" else part for part in command]
                process = subprocess.Popen(
                    [sys.executable, *command], env=self.environment(server.url), stdout=subprocess.DEVNULL)
                try:
                    until(lambda: len(engine.settled) == 2)
                finally:
                    process.terminate()
                    self.assertEqual(process.wait(20), 0)
                self.assertEqual({job["id"] for job in engine.settled}, {"a", "b"})


if __name__ == "__main__":
    unittest.main()
