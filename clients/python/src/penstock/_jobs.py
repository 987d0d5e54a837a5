"""Jobs on their way to the server, and the answers about them."""
from __future__ import annotations

import base64
import json
import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Dict, Iterator, Mapping, Optional, Tuple, Union

from ._core import encode
from ._units import instant, moment
from .errors import Invalid, PenstockError


@dataclass(frozen=True)
class Eta:
    """When a job is expected to leave."""

    at: datetime
    exact: bool


class Appended:
    """The answer about one appended job. In a stream, ``error`` says why a job was not accepted.

    ``index`` is the job's place in the source, from 0.
    """

    __slots__ = ("id", "raw", "error", "duplicate", "index")

    def __init__(
        self, id: str, raw: Mapping[str, Any], error: Optional[PenstockError] = None, duplicate: bool = False,
        index: int = 0,
    ) -> None:
        self.id, self.raw, self.error, self.duplicate, self.index = id, raw, error, duplicate, index

    @property
    def state(self) -> str:
        return str(self.raw.get("state", ""))

    @property
    def position(self) -> Optional[int]:
        return self.raw.get("position")

    @property
    def eta(self) -> Optional[Eta]:
        eta = self.raw.get("eta")
        return Eta(moment(eta["at"]), bool(eta.get("exact"))) if eta else None

    def __repr__(self) -> str:
        what = f"error={self.error!r}" if self.error else f"state={self.state!r}, position={self.position!r}"
        return f"Appended(id={self.id!r}, {what})"


_PAYLOADS = frozenset({"payload", "payload_json", "payload_bytes", "payload_base64"})


def encode_job(job: Mapping[str, Any], one_line: bool = False) -> Tuple[str, bytes]:
    """Return a job's id, which is generated if missing, and its JSON.

    A job has the fields of the API. Instead of ``payload`` it may have ``payload_json`` (JSON text, which is sent
    unchanged) or ``payload_bytes`` with a ``content_type``. Instants may be datetimes with a time zone.
    """
    if not isinstance(job, Mapping):
        raise Invalid(f"must be a mapping with a payload, not {type(job).__name__}", "job")
    fields = {name: value for name, value in job.items() if value is not None or name == "payload"}
    id = fields.get("id")
    if id is None:
        id = fields["id"] = str(uuid.uuid4())
    elif not isinstance(id, str):
        raise Invalid("must be a string", "id")
    if len(fields.keys() & _PAYLOADS) != 1:
        raise Invalid("give exactly one of payload, payload_json and payload_bytes", "payload")
    for name in ("not_before", "expires_at"):
        if name in fields:
            fields[name] = instant(fields[name], name)
    if "payload_bytes" in fields:
        fields["payload_base64"] = base64.b64encode(fields.pop("payload_bytes")).decode("ascii")
    text = fields.pop("payload_json", None)
    body = encode(fields, "job")
    if text is not None:
        body = b'{"payload":' + _checked(text, one_line) + b"," + body[1:]
    return id, body


def _checked(text: Union[str, bytes], one_line: bool) -> bytes:
    """Return JSON text unchanged, except for line breaks between values where a job must be one line."""
    try:
        raw = text if isinstance(text, bytes) else text.encode("utf-8")
        _DECODER.decode(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise Invalid(f"is not JSON: {error}", "payload_json") from error
    return raw.replace(b"\n", b" ").replace(b"\r", b" ") if one_line else raw


class _Number:
    """Reads an integer of any length. Python limits the digits of an int."""

    def __new__(cls, text: str) -> Any:
        return int(text) if len(text) < 4000 else float(text)


_DECODER = json.JSONDecoder(parse_int=_Number)  # type: ignore[arg-type]
_SPACE = " \t\n\r"


def members(text: str) -> Dict[str, Tuple[Any, str]]:
    """Return the members of a JSON object: each value, and its text as it stands."""
    found: Dict[str, Tuple[Any, str]] = {}
    at = _skip(text, 0) + 1
    while text[(at := _skip(text, at))] != "}":
        name, at = _DECODER.raw_decode(text, _after_comma(text, at))
        start = _skip(text, _skip(text, at) + 1)
        value, at = _DECODER.raw_decode(text, start)
        found[name] = value, text[start:at]
    return found


def elements(text: str) -> Iterator[Tuple[Any, str]]:
    """Return the elements of a JSON array: each value, and its text."""
    at = _skip(text, 0) + 1
    while text[(at := _skip(text, at))] != "]":
        start = _after_comma(text, at)
        value, at = _DECODER.raw_decode(text, start)
        yield value, text[start:at]


def _after_comma(text: str, at: int) -> int:
    return _skip(text, at + 1) if text[at] == "," else at


def _skip(text: str, at: int) -> int:
    while text[at] in _SPACE:
        at += 1
    return at
