import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


class Generated(unittest.TestCase):
    def test_generated_files_are_not_stale(self):
        for script in ("generate_types.py", "generate_sync.py"):
            with self.subTest(script=script):
                done = subprocess.run([sys.executable, str(ROOT / script), "--check"], capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
