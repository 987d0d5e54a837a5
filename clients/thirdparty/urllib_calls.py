"""Calls OpenAI's API with Python's urllib. Usage: python3 urllib_calls.py [CALLS [whole|stream|mixed]]

The base URL and the key are in OPENAI_BASE_URL and OPENAI_API_KEY. Nothing here knows Penstock. Since urllib has no
retries, this program tries again after Retry-After, as users write it.
"""

import json
import os
import sys
import time
import urllib.error
import urllib.request

CALLS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
MODE = sys.argv[2] if len(sys.argv) > 2 else "mixed"
RETRIES = int(os.environ.get("MAX_RETRIES", "2"))


def call(stream, statuses):
    body = {"model": "sim-small", "messages": [{"role": "user", "content": "hello"}], "max_completion_tokens": 500}
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        json.dumps(body).encode(),
        {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"},
    )
    for tries in range(RETRIES + 1):
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                statuses.append(answer.status)
                return read_stream(answer) if stream else read_whole(answer)
        except urllib.error.HTTPError as e:
            statuses.append(e.code)
            if e.code not in (429, 503) or tries == RETRIES:
                raise
            time.sleep(float(e.headers.get("Retry-After", "1")))
    raise AssertionError("unreachable")


def read_whole(answer):
    value = json.load(answer)
    return {"pieces": len(value["choices"]), "tokens": value["usage"]["total_tokens"]}


def read_stream(answer):
    pieces = tokens = 0
    for line in answer:
        text = line.decode().strip().removeprefix("data: ")
        if not text or text == "[DONE]":
            continue
        value = json.loads(text)
        pieces += sum(1 for c in value["choices"] if c["delta"].get("content"))
        tokens = (value.get("usage") or {}).get("total_tokens", tokens)
    return {"pieces": pieces, "tokens": tokens}


n = 0
while CALLS == 0 or n < CALLS:
    streamed = MODE == "stream" or (MODE == "mixed" and n % 2 == 1)
    n += 1
    began, seen = time.monotonic(), []
    report = {"stream": streamed}
    try:
        report |= call(streamed, seen)
    except urllib.error.HTTPError as e:
        report |= {"error": "HTTPError", "status": e.code, "message": e.read(1000).decode(errors="replace")}
    except OSError as e:
        report |= {"error": type(e).__name__, "message": str(e)}
    report |= {"statuses": seen, "ms": round(1000 * (time.monotonic() - began))}
    print(json.dumps(report), flush=True)
