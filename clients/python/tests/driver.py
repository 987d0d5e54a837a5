#!/usr/bin/env python3
"""Runs the requests of the conformance test: one JSON line each on stdin, one answer each on stdout.

Uses the blocking client, or with --asyncio the one for asyncio.
"""
import asyncio
import ctypes
import json
import os
import sys
import threading
import time
import urllib.error
import urllib.request
from itertools import count

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "src"))

import penstock  # noqa: E402
from penstock import (  # noqa: E402
    AsyncPenstock, Cancel, Cancelled, Invalid, Penstock, Refused, TimedOut, Unreachable,
)

HOOKS = []


def on(event):
    HOOKS.append(event["kind"])
    print(json.dumps({k: repr(v) if isinstance(v, BaseException) else v for k, v in event.items()}), file=sys.stderr)


def error_of(error):
    """Return an error as the conformance test wants it."""
    if isinstance(error, (Cancelled, asyncio.CancelledError)):
        return {"kind": "cancelled"}
    if isinstance(error, Refused):
        found = {name: getattr(error, name) for name in ("status", "reason", "field", "id")}
        found["kind"] = "refused"
        if error.retry_after is not None:
            found["retry_after"] = error.retry_after
        return found
    kinds = [(TimedOut, "timeout"), (Unreachable, "unreachable"), (Invalid, "invalid")]
    kind = next((kind for of, kind in kinds if isinstance(error, of)), "invalid")
    return {"kind": kind, "detail": str(error) or repr(error)}


def appended(result):
    if result.error is not None:
        return {"id": result.id, "error": error_of(result.error)}
    return {**result.raw, "id": result.id, "duplicate": result.duplicate}


def taken(result):
    return {**result.raw, "allowed": result.allowed, "limit": result.limit, "remaining": result.remaining,
            "retry_after": result.retry_after, "reset_after": result.reset_after, "receipt": result.receipt,
            "lease": result.lease}


def options_of(request):
    given = request.get("options") or {}
    return {name: given[name] for name in ("timeout", "traceparent") if given.get(name) is not None}


def jobs_of(args):
    """Return the jobs of an append_stream, and whether the driver made them."""
    if "count" not in args:
        return args["jobs"], False
    payload = "x" * args.get("payload_size", 10)
    prefix = args.get("prefix", "job-")
    return ({"id": f"{prefix}{n}", "payload": payload} for n in range(args["count"])), True


def stream_options(args, options):
    for name in ("retry_for", "in_flight"):
        if args.get(name) is not None:
            options[name] = args[name]
    return options


def summary(results, made):
    if not made:
        return {"results": [appended(result) for result in results]}
    accepted = sum(1 for r in results if r.error is None and not r.duplicate)
    duplicates = sum(1 for r in results if r.duplicate)
    return {"accepted": accepted, "duplicates": duplicates, "failed": len(results) - accepted - duplicates}


PROXY = ("lane", "cost", "costs", "priority", "wait", "retry")


def through_proxy(url, args):
    """Make a call with urllib. With ack, call that URL after each event of the answer."""
    with open(os.environ["PENSTOCK_TOKEN_FILE"], encoding="utf-8") as file:
        headers = {"Authorization": "Bearer " + file.read().strip()}
    headers.update(penstock.proxy_headers(**{name: args[name] for name in PROXY if name in args}))
    body = args["body"].encode() if "body" in args else None
    request = urllib.request.Request(url + args.get("path", ""), body, headers, method=args.get("method", "GET"))
    try:
        response = urllib.request.urlopen(request)
    except urllib.error.HTTPError as error:
        response = error
    with response:
        problem = penstock.problem_of(response)
        if problem is not None:
            raise problem
        lines = []
        for line in response:
            lines.append(line)
            if "ack" in args and line == b"\n":
                urllib.request.urlopen(args["ack"]).close()
        status, waited = response.status, float(response.headers["Penstock-Waited"]) / 1000
        after = response.headers.get("Retry-After", "")
    return {"status": status, "body": b"".join(lines).decode(), "waited": waited, "retry_after": after}


class Handler:
    """The handler of a worker, in one of the modes of the conformance test."""

    def __init__(self, args):
        self.args, self.mode, self.ids, self.payloads = args, args.get("mode", "ok"), [], []
        self.never = threading.Event()

    def outcome(self, job):
        self.ids.append(job.id)
        if "actual" in self.args:
            job.report_actual(self.args["actual"])
        if self.mode == "throw":
            raise RuntimeError("boom")
        if self.mode == "throw_value":
            raise "boom"  # noqa: B016
        if self.mode == "retry":
            return penstock.retry(self.args.get("after"), "again")
        if self.mode == "dead":
            return penstock.dead("bad")
        if self.mode == "throttled":
            return penstock.throttled(self.args.get("after", 0))
        if self.mode == "released":
            return penstock.released()
        if self.mode == "held":
            return penstock.held("unsure")
        if self.mode == "twice":
            job.settle()
            return penstock.dead("twice")
        if self.mode == "echo":
            self.payloads.append(job.payload_text)
        return None

    def call(self, job):
        outcome = self.outcome(job)
        if self.mode == "block" and job.attempt == 1:  # all threads: the function sleeps with the interpreter's lock
            ctypes.PyDLL(None).sleep(int(self.args.get("seconds", 1)))
        if self.mode == "slow":
            if job.lost.wait(self.args.get("seconds", 1)):
                return penstock.retry()
        if self.mode == "never":
            self.never.wait()
        return outcome

    async def acall(self, job):
        outcome = self.outcome(job)
        if self.mode == "block" and job.attempt == 1:  # its lease is lost, so the job comes again
            time.sleep(self.args.get("seconds", 1))
        if self.mode == "slow":
            await asyncio.sleep(self.args.get("seconds", 1))
        if self.mode == "never":
            await asyncio.Event().wait()
        return outcome

    def stopped(self, stats):
        return {**stats, "ids": self.ids, "payloads": self.payloads}


WORKER = ("concurrency", "name", "grace", "max_time")
SIMPLE = {  # call: (method, positional arguments, keyword arguments)
    "append": ("append", ("queue", "job"), ()),
    "get": ("get", ("queue", "id"), ()),
    "cancel_job": ("cancel", ("queue", "id"), ()),
    "wait": ("wait", ("queue", "id"), ("timeout",)),
    "throttle": ("throttle", ("queue", "after"), ("reason",)),
    "take": ("take", ("rule",), ("key", "cost", "costs", "wait", "lease")),
    "peek": ("peek", ("rule",), ("key", "cost", "costs")),
    "correct": ("correct", ("rule", "take", "actual"), ("key",)),
    "refund": ("refund", ("rule",), ("key", "cost", "receipt", "lease")),
    "put_queue": ("put_queue", ("queue", "spec"), ("if_match", "if_none_match")),
    "put_rule": ("put_rule", ("rule", "spec"), ()),
    "get_queue": ("get_queue", ("queue",), ()),
    "delete_queue": ("delete_queue", ("queue",), ("force",)),
    "pause": ("pause", ("queue",), ("reason", "until")),
    "resume": ("resume", ("queue",), ()),
    "forecast": ("forecast", ("queue",), ("rate",)),
}


def simple(client, name, args, options):
    """Return a call that needs no more than its arguments."""
    method, positional, keywords = SIMPLE[name]
    more = {k: args[k] for k in keywords if args.get(k) is not None}
    if "if_none_match" in more:
        more["if_none_match"] = bool(more["if_none_match"])
    return getattr(client, method)(*[args[p] for p in positional], **{**options, **more})


def turn(client, args, options):
    return client.turn(args["queue"], **{k: args[k] for k in ("wait", "costs", "report_within") if k in args}, **options)


def report(turn, args):
    """Report what the call used, and return the answer about the turn."""
    if "actual" in args:
        turn.report_actual(args["actual"])
    return {"waited": turn.waited, "costs": turn.costs}


def paced(client, args, options):
    more = {k: args[k] for k in ("wait", "costs") if k in args}
    if "actual" in args:
        more["actual"] = lambda response: args["actual"]
    return client.paced(args["queue"], **more, **options)


def answer_of(name, value):
    if name == "append":
        return appended(value)
    if name in ("take", "peek", "correct", "refund"):
        return taken(value)
    return value if value is not None else {}


class Sync:
    """Runs each call in a thread."""

    def __init__(self):
        self.client = Penstock(on=on)
        self.lock, self.cancels, self.workers, self.numbers = threading.Lock(), {}, {}, count(1)

    def run(self):
        threads = []
        for line in sys.stdin:
            request = json.loads(line)
            self.cancels[request["n"]] = Cancel()
            threads.append(threading.Thread(target=self.serve, args=(request,), daemon=True))
            threads[-1].start()
        for worker, _ in self.workers.values():
            worker.stop(0)

    def serve(self, request):
        try:
            answer = {"n": request["n"], "ok": self.call(request)}
        except Exception as error:
            answer = {"n": request["n"], "error": error_of(error)}
        with self.lock:
            print(json.dumps(answer), flush=True)

    def call(self, request):
        name, args, client = request["call"], request.get("args") or {}, self.client
        options = {**options_of(request), "cancel": self.cancels[request["n"]]}
        if name in SIMPLE:
            answer = simple(client, name, args, options)
            if name == "take" and "actual" in args:
                answer = simple(client, "correct", {**args, "take": answer.take}, options)
            return answer_of(name, answer)
        if name == "append_many":
            return summary(client.append_many(args["queue"], args["jobs"], **options), False)
        if name == "append_stream":
            jobs, made = jobs_of(args)
            results = list(client.append_stream(args["queue"], jobs, **stream_options(args, options)))
            return summary(results, made)
        if name == "list":
            return {"ids": [job["id"] for job in client.list(args["queue"], args["state"], **options)]}
        if name == "turn":
            with turn(client, args, options) as come:
                return report(come, args)
        if name == "time_turns":
            return self.time_turns(args)
        if name == "paced_get":
            return self.paced_get(args, options)
        if name == "proxy":
            return through_proxy(client.proxy_url(args["queue"]), args)
        if name == "worker":
            handler = Handler(args)
            more = {k: args[k] for k in WORKER if args.get(k) is not None}
            number = next(self.numbers)
            self.workers[number] = client.worker(args["queue"], handler.call, **more).start(), handler
            return {"worker": number}
        if name == "worker_stop":
            worker, handler = self.workers.pop(args["worker"])
            while len(handler.ids) < args.get("begun", 0):
                time.sleep(0.001)
            worker.stop(args.get("grace"))
            return handler.stopped(worker.stats)
        if name == "events":
            kinds = []
            for event in client.events(args.get("queue"), **options):
                kinds.append(event.kind)
                if len(kinds) == args["count"]:
                    return {"kinds": kinds}
        if name == "hooks":
            return {"events": list(HOOKS)}
        if name == "cancel":
            self.cancels[args["of"]].cancel()
            return {}
        raise Invalid(f"unknown call {name!r}")

    def time_turns(self, args):
        """Take turns by the client and by bare requests, and return how long each took, for the benchmarks."""
        import http.client
        import urllib.parse

        url = urllib.parse.urlsplit(args["url"])
        connection = http.client.HTTPConnection(url.netloc)
        took = {"bare": [], "client": []}
        for _ in range(args["count"]):
            began = time.perf_counter()
            connection.request("POST", url.path, b'{"wait":"30s"}', {"Content-Type": "application/json"})
            connection.getresponse().read()
            between = time.perf_counter()
            self.client.wait_turn(args["queue"], wait=30)
            took["bare"].append(between - began)
            took["client"].append(time.perf_counter() - between)
        return took

    def paced_get(self, args, options):
        get = paced(self.client, args, options)
        try:
            with get(args["url"]) as response:
                return {"status": response.status}
        except urllib.error.HTTPError as error:
            return {"status": error.code}


class Async:
    """Runs each call as a task."""

    def __init__(self):
        self.client = AsyncPenstock(on=on)
        self.tasks, self.workers, self.numbers = {}, {}, count(1)

    async def run(self):
        loop, lines = asyncio.get_running_loop(), asyncio.Queue()

        def read():
            for line in sys.stdin:
                loop.call_soon_threadsafe(lines.put_nowait, line)
            loop.call_soon_threadsafe(lines.put_nowait, None)

        threading.Thread(target=read, daemon=True).start()
        while (line := await lines.get()) is not None:
            request = json.loads(line)
            self.tasks[request["n"]] = asyncio.ensure_future(self.serve(request))
        for worker, _ in self.workers.values():
            await worker.stop(0)

    async def serve(self, request):
        try:
            answer = {"n": request["n"], "ok": await self.call(request)}
        except (Exception, asyncio.CancelledError) as error:
            answer = {"n": request["n"], "error": error_of(error)}
        print(json.dumps(answer), flush=True)

    async def call(self, request):
        name, args, client = request["call"], request.get("args") or {}, self.client
        options = options_of(request)
        if name in SIMPLE:
            answer = await simple(client, name, args, options)
            if name == "take" and "actual" in args:
                answer = await simple(client, "correct", {**args, "take": answer.take}, options)
            return answer_of(name, answer)
        if name == "append_many":
            return summary(await client.append_many(args["queue"], args["jobs"], **options), False)
        if name == "append_stream":
            jobs, made = jobs_of(args)
            stream = client.append_stream(args["queue"], jobs, **stream_options(args, options))
            return summary([result async for result in stream], made)
        if name == "list":
            return {"ids": [job["id"] async for job in client.list(args["queue"], args["state"], **options)]}
        if name == "turn":
            async with turn(client, args, options) as come:
                return report(come, args)
        if name == "paced_get":
            return await self.paced_get(args, options)
        if name == "proxy":
            return await asyncio.to_thread(through_proxy, client.proxy_url(args["queue"]), args)
        if name == "worker":
            handler = Handler(args)
            more = {k: args[k] for k in WORKER if args.get(k) is not None}
            number = next(self.numbers)
            self.workers[number] = client.worker(args["queue"], handler.acall, **more).start(), handler
            return {"worker": number}
        if name == "worker_stop":
            worker, handler = self.workers.pop(args["worker"])
            while len(handler.ids) < args.get("begun", 0):
                await asyncio.sleep(0.001)
            await worker.stop(args.get("grace"))
            return handler.stopped(worker.stats)
        if name == "events":
            kinds = []
            async for event in client.events(args.get("queue"), **options):
                kinds.append(event.kind)
                if len(kinds) == args["count"]:
                    return {"kinds": kinds}
        if name == "hooks":
            return {"events": list(HOOKS)}
        if name == "cancel":
            self.tasks[args["of"]].cancel()
            return {}
        raise Invalid(f"unknown call {name!r}")

    async def paced_get(self, args, options):
        get = paced(self.client, args, options)
        try:
            response = await get(args["url"])
            with response:
                return {"status": response.status}
        except urllib.error.HTTPError as error:
            return {"status": error.code}


if __name__ == "__main__":
    if "--asyncio" in sys.argv[1:]:
        asyncio.run(Async().run())
    else:
        Sync().run()
    sys.stdout.flush()
    os._exit(0)  # handlers that never return must not keep the driver
