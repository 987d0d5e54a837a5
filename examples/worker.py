#!/usr/bin/env python3
"""A worker for a pull queue: asks for jobs, works on them and settles them. Needs only Python.

    penstock queue set resize rate=5/s pull=true
    PENSTOCK_TOKEN=$(cat penstock-data/admin.token) python3 examples/worker.py http://127.0.0.1:8080 resize
"""
import json, os, socket, sys, time, urllib.error, urllib.request

SERVER, QUEUE = sys.argv[1], sys.argv[2]
HEADERS = {"Content-Type": "application/json"}
if os.environ.get("PENSTOCK_TOKEN"):
    HEADERS["Authorization"] = "Bearer " + os.environ["PENSTOCK_TOKEN"]
NAME = f"{socket.gethostname()}:{os.getpid()}"  # shown in the timeline of each job

def call(what, body):
    request = urllib.request.Request(f"{SERVER}/v1/queues/{QUEUE}/{what}", json.dumps(body).encode(), HEADERS)
    while True:
        try:
            with urllib.request.urlopen(request, timeout=70) as answer:  # longer than the longest wait
                return json.load(answer)["jobs"]
        except (urllib.error.URLError, OSError) as problem:
            if getattr(problem, "code", 500) < 429:  # a retry cannot help
                sys.exit(problem.read().decode())
        time.sleep(1)  # the server is unavailable: all these calls can be repeated

def work(job):  # your code; start at once. If it takes longer than the queue's lease, call "extend"
    print(job["id"], json.dumps(job.get("payload")), flush=True)

while True:
    for job in call("leases", {"max": 10, "wait": "30s", "worker": NAME}):
        settlement = {"id": job["id"], "lease": job["lease"], "outcome": "delivered"}
        try:
            work(job)
        except Exception as problem:  # retried after the queue's backoff; dead after max_attempts
            settlement.update(outcome="retry", reason=repr(problem)[:500])
        call("settle", {"jobs": [settlement]})
