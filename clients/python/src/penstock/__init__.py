"""A client of Penstock, a queue-backed leaky-bucket job throttler.

``Penstock`` blocks and is for threads; ``AsyncPenstock`` is for asyncio. Both have the same calls.
"""
from ._calls import AsyncTurn
from ._calls_sync import Turn
from ._events import Event
from ._answers import Taken
from ._http_sync import Cancel
from ._jobs import Appended, Eta
from ._leases import Job
from ._proxy import problem_of, proxy_headers
from ._version import VERSION as __version__
from ._worker import AsyncWorker
from .aio import AsyncPenstock
from .client import Penstock, Worker
from .errors import Cancelled, Invalid, PenstockError, Refused, TimedOut, Unreachable
from .outcomes import Outcome, dead, delivered, down, held, released, retry, throttled

__all__ = [
    "Appended", "AsyncPenstock", "AsyncTurn", "AsyncWorker", "Cancel", "Cancelled", "Eta", "Event", "Invalid", "Job",
    "Outcome", "Penstock", "PenstockError", "Refused", "Taken", "TimedOut", "Turn", "Unreachable", "Worker",
    "__version__", "dead", "delivered", "down", "held", "problem_of", "proxy_headers", "released", "retry", "throttled",
]
