"""How a handler ends its job: it returns or raises one of these. Returning anything else means delivered."""
from __future__ import annotations

from typing import Any, Dict, Optional

from ._units import Span, clip, span


class Outcome(Exception):
    """The outcome of a job, for the handler to return or to raise."""

    def __init__(
        self, outcome: str, reason: str = "", after: Optional[Span] = None, lane_only: bool = False,
        trouble: bool = False,
    ) -> None:
        super().__init__(reason or outcome)
        self.outcome = outcome
        self.fields: Dict[str, Any] = {"outcome": outcome}
        if reason:
            self.fields["reason"] = clip(reason)
        if after is not None:
            self.fields["after"] = span(after, "after")
        if lane_only:
            self.fields["lane_only"] = True
        if trouble:
            self.fields["trouble"] = True


def delivered() -> Outcome:
    """The job is done. Only ``job.settle`` needs this."""
    return Outcome("delivered")


def retry(after: Optional[Span] = None, reason: str = "", trouble: bool = False) -> Outcome:
    """Try the job again, by default after the queue's backoff. With ``trouble``, the target is at fault."""
    return Outcome("retry", reason, after, trouble=trouble)


def dead(reason: str) -> Outcome:
    """Do not try the job again."""
    return Outcome("dead", reason)


def throttled(after: Span = 0, lane_only: bool = False, reason: str = "") -> Outcome:
    """The receiver asks for a delay: the queue, or only the job's lane, stops. 0 means that it named no time."""
    return Outcome("throttled", reason, after, lane_only)


def released() -> Outcome:
    """The job was not started. It keeps its turn."""
    return Outcome("released")


def held(reason: str) -> Outcome:
    """The job may have been sent, so a person must decide."""
    return Outcome("held", reason)


def down(reason: str) -> Outcome:
    """The target is down. The job keeps its turn, and several of these in a row open the circuit."""
    return Outcome("down", reason)
