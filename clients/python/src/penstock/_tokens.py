"""Where the token comes from."""
from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Awaitable, Callable, Mapping, Optional, Tuple, Union

from .errors import Invalid

Token = Union[str, Path, Callable[[], Union[str, Awaitable[str]]], None]


class TokenSource:
    """Returns the token for the next request. A file is read again when it changes, a callback asked after a 401."""

    def __init__(self, token: Token, environ: Mapping[str, str] = os.environ) -> None:
        if token is None and environ.get("PENSTOCK_TOKEN"):
            token = environ["PENSTOCK_TOKEN"]
        elif token is None and environ.get("PENSTOCK_TOKEN_FILE"):
            token = Path(environ["PENSTOCK_TOKEN_FILE"])
        self._source = token
        self._known: Any = check(token) if isinstance(token, str) else None
        self._seen: Optional[Tuple[int, ...]] = None

    @property
    def renewable(self) -> bool:
        return self._source is not None and not isinstance(self._source, str)

    @property
    def asks(self) -> bool:
        """Whether the next token comes from the callback."""
        return callable(self._source) and self._known is None

    def get(self) -> Any:
        """Return the token, None without one, or an awaitable of the token."""
        if isinstance(self._source, Path):
            return self._read(self._source)
        if self.asks:
            return self._source()  # type: ignore[operator, misc]
        return self._known

    def learn(self, token: Any) -> Optional[str]:
        """Keep the token that a callback returned."""
        self._known = None if token is None else check(token)
        return self._known

    def forget(self) -> None:
        """Ask the file or the callback again."""
        if self.renewable:
            self._known = self._seen = None

    def _read(self, file: Path) -> str:
        try:
            state = os.stat(file)
            seen = (state.st_mtime_ns, state.st_size, state.st_ino)
            if self._known is None or seen != self._seen:
                self._known, self._seen = check(file.read_text("utf-8").strip()), seen
        except (OSError, UnicodeDecodeError) as error:
            raise Invalid(f"the file {str(file)!r} cannot be read: {error}", "token") from error
        return str(self._known)


def check(token: Any) -> str:
    """Refuse a text that is not a header value. The message must not show the token."""
    if not isinstance(token, str) or not token or not all("!" <= c <= "~" for c in token):
        raise Invalid("must be visible ASCII characters", "token")
    return token
