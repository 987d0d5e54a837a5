#!/usr/bin/env python3
"""A worker that calls a provider with the jobs of llm.batch (see llm.yaml), and reports what each has used.

    PENSTOCK_TOKEN=... OPENAI_API_KEY=... python3 examples/llm_worker.py http://127.0.0.1:8080
"""
import json, os, pathlib, sys, urllib.error, urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "clients/python/src"))  # or: pip install
from penstock import Penstock, dead, throttled

URL = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1") + "/chat/completions"
HEADERS = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"}

def call(job):  # its payload is a request for a chat completion
    try:
        with urllib.request.urlopen(urllib.request.Request(URL, job.payload_bytes, HEADERS)) as response:
            answer = json.load(response)
    except urllib.error.HTTPError as error:
        if error.code == 429:
            job.report_actual({"tokens": 0})
            return throttled(int(error.headers.get("Retry-After", 0)))  # the queue stops
        if error.code < 500:
            return dead(f"the provider answered {error.code}")
        raise  # a retry
    job.report_actual({"tokens": answer["usage"]["total_tokens"]})
    print(f"{job.id} {answer['usage']['total_tokens']} tokens\n", end="", flush=True)

client = Penstock(sys.argv[1], on=lambda event: print(event, file=sys.stderr))
client.worker("llm.batch", call, concurrency=50).run()  # until SIGTERM or Ctrl-C
