#!/usr/bin/env python3
"""A worker for a pull queue, on the Python client in this repository. Needs only Python.

    penstock queue set resize rate=5/s pull=true
    PENSTOCK_TOKEN=$(cat penstock-data/admin.token) python3 examples/worker.py http://127.0.0.1:8080 resize
"""
import json, pathlib, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "clients/python/src"))  # or: pip install
from penstock import Penstock

def work(job):  # your code; an exception means retry, and the client extends the lease while it runs
    print(f"{job.id} {json.dumps(job.payload)}\n", end="", flush=True)  # one write: others run beside it in threads

client = Penstock(sys.argv[1], on=lambda event: print(event, file=sys.stderr))
client.worker(sys.argv[2], work).run()  # until SIGTERM or Ctrl-C
