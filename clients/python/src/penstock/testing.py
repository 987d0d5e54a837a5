"""A Penstock server for tests, in memory, with a clock that the test moves if it likes."""
from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import Any, Optional

from ._core import Call
from ._units import Span, span
from .aio import AsyncPenstock
from .client import Penstock
from .errors import Invalid, Unreachable


class Server:
    """A running server. It ends with ``stop()``, with its block, or with this process."""

    def __init__(self, process: "subprocess.Popen[str]", url: str, token: Optional[str]) -> None:
        self._process, self.url, self.token, self.pid = process, url, token, process.pid

    def client(self, **more: Any) -> Penstock:
        return Penstock(self.url, token=self.token, **more)

    def aio(self, **more: Any) -> AsyncPenstock:
        return AsyncPenstock(self.url, token=self.token, **more)

    def advance(self, by: Span) -> str:
        """Move the virtual clock, and return its time. Needs ``clock="virtual"``."""
        with self.client() as client:
            # All that becomes due happens before the answer.
            c = Call("POST", "/v1/clock", {"advance": span(by, "by")}, repeatable=False, timeout=300.0)
            return str(client._call(c, {}).value["now"])

    def stop(self) -> None:
        """End the server."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()  # the server exits with it
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *error: Any) -> None:
        self.stop()


def start_penstock(clock: Optional[str] = None, *args: str) -> Server:
    """Start ``penstock up --ephemeral``: the program in PENSTOCK_BIN, else ``penstock`` in the PATH."""
    program = os.environ.get("PENSTOCK_BIN") or shutil.which("penstock")
    if not program:
        raise Invalid("penstock is not in the PATH: install it, or set PENSTOCK_BIN")
    command = [program, "up", "--ephemeral", "--log-level", "warn", *(["--clock", clock] if clock else []), *args]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    try:
        ready = json.loads(line)
        return Server(process, ready["url"], ready.get("token"))
    except (ValueError, KeyError, TypeError) as error:
        process.kill()
        process.communicate()
        raise Unreachable(f"{program} did not start: it printed {line!r}") from error
