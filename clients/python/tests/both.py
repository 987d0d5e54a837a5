"""Runs tests with both clients: each call of ``self.client`` blocks, whichever client is behind it."""
import asyncio
import inspect
import threading

import fake  # noqa: F401
from penstock import AsyncPenstock, Penstock


class Blocking:
    """The asyncio client, seen from a test that does not await."""

    def __init__(self, **options):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._client = AsyncPenstock(**options)
        self.core = self._client.core

    def run(self, work, timeout=30):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout)

    def submit(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def __getattr__(self, name):
        method = getattr(self._client, name)

        def call(*args, **kwargs):
            result = method(*args, **kwargs)
            if isinstance(result, str):
                return result
            return self.run(result) if inspect.isawaitable(result) else self._iterate(result)

        return call

    def _iterate(self, source):
        while True:
            try:
                yield self.run(source.__anext__())
            except StopAsyncIteration:
                return

    def close(self):
        self.run(self._client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class BothMixin:
    """Subclass it with unittest.TestCase, and set ``kind``."""

    def serve(self, serve, **options):
        """Start a server and return it with a client."""
        server = fake.Server(serve if callable(serve) else fake.script(serve))
        self.addCleanup(server.stop)
        return server, self.connect(url=server.url, **options)

    def connect(self, **options):
        self.events = []
        client = self.kind(on=self.events.append, **options)
        self.addCleanup(client.close)
        return client


def both(mixin):
    """Return a test case for each client."""
    import unittest

    return (
        type(mixin.__name__ + "Sync", (mixin, BothMixin, unittest.TestCase), {"kind": Penstock}),
        type(mixin.__name__ + "Async", (mixin, BothMixin, unittest.TestCase), {"kind": Blocking}),
    )
