#!/usr/bin/env python3
"""Write src/penstock/_calls_sync.py from _calls.py. With --check, only compare."""
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent / "src" / "penstock"
SOURCE, TARGET = HERE / "_calls.py", HERE / "_calls_sync.py"
REPLACE = [
    (r'^""".*"""', '"""The calls of the blocking client. Made by generate_sync.py from _calls.py: do not edit."""'),
    (r", AsyncIterator, Awaitable, Callable, Dict, Iterable, ", ", Callable, Dict, Iterable, Iterator, "),
    (r"Awaitable\[Any\]", "Any"), (r"\basync (def|for|with) ", r"\1 "), (r"\bawait ", ""),
    (r"__a(enter|exit)__", r"__\1__"), (r"\bAsync(Iterator|Calls|Turn)", r"\1"),
    (r"A cancelled task", "A cancelled call"),
]


def generate() -> str:
    text = SOURCE.read_text("utf-8")
    for pattern, replacement in REPLACE:
        text = re.sub(pattern, replacement, text)
    return text


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        sys.exit(0 if TARGET.read_text("utf-8") == generate() else f"{TARGET} is stale: run {Path(__file__).name}")
    TARGET.write_text(generate(), "utf-8")
