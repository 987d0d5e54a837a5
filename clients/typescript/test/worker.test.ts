import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { dead, held, LeaseLost, Misuse, Refused, released, retry, throttled, type Handler, type WorkerOptions } from "penstock";
import { clip } from "../src/outcome.js";
import { parts } from "../src/slices.js";
import { fake, send, until } from "./fake.js";

interface Rig { lease?: number; extend?: (job: any) => object; settle?: (job: any) => object; jobs: any[]; away?: boolean; fail?: number }

/** rig runs a worker against a server with the given jobs, and records settlements and extensions. */
async function rig(t: TestContext, r: Rig, handler: Handler<any>, options: WorkerOptions = {}) {
  const waiting = [...r.jobs];
  const settled: any[] = [];
  const extended: any[] = [];
  const leases: any[] = [];
  const server = await fake(t, async (request, response) => {
    if (r.away) return request.raw.socket.destroy();
    if (request.path.endsWith("/leases")) {
      leases.push(request.json);
      if (waiting.length === 0) return; // waits until the worker gives up
      return send(response, 200, { jobs: waiting.splice(0, request.json.max).map((job) => ({ ...leased(job.id, r.lease), ...job })) });
    }
    if (r.fail) {
      r.fail--;
      return request.raw.socket.destroy();
    }
    const each = request.path.endsWith("/settle")
      ? (job: any) => (settled.push(job), r.settle?.(job) ?? { id: job.id, state: job.outcome })
      : (job: any) => (extended.push(job), r.extend?.(job) ?? { id: job.id, expires_in_ms: r.lease });
    send(response, 200, { jobs: request.json.jobs.map(each) });
  });
  const worker = server.client.worker("q", handler, { concurrency: 100, name: "w", ...options });
  const finished = worker.start();
  finished.catch(() => {});
  return { ...server, worker, settled, extended, leases, finished };
}

const leased = (id: string, expires_in_ms = 30_000) => ({
  id, lease: `l-${id}`, expires_in_ms, content_type: "application/json", cost: 1, attempt: 1,
  appended_at: "2026-01-01T00:00:00Z", expires_at: "2026-01-01T00:00:00Z",
});

const outcomes = (settled: any[]) => Object.fromEntries(settled.map(({ id, lease: _, ...rest }) => [id, rest]));

test("what a handler returns or throws decides", async (t) => {
  const handlers: Record<string, () => unknown> = {
    ok: () => undefined, thrown: () => { throw new Error("why"); }, value: () => { throw { a: 1 }; },
    retry: () => retry("5s", "later"), dead: () => { throw dead("no"); }, throttled: () => throttled(2, { laneOnly: true }),
    released: () => released(), held: async () => held("unsure"),
  };
  const { worker, settled, events, leases } = await rig(t, { jobs: Object.keys(handlers).map((id) => ({ id, payload: 1 })) }, (job) => handlers[job.id]!());
  await until(() => settled.length === 8);
  assert.deepEqual(outcomes(settled), {
    ok: { outcome: "delivered" }, thrown: { outcome: "retry", reason: "why" }, value: { outcome: "retry", reason: '{"a":1}' },
    retry: { outcome: "retry", after: "5000ms", reason: "later" }, dead: { outcome: "dead", reason: "no" },
    throttled: { outcome: "throttled", after: "2000ms", lane_only: true }, released: { outcome: "released" },
    held: { outcome: "held", reason: "unsure" },
  });
  assert.deepEqual(leases[0], { max: 100, wait: "30s", worker: "w" });
  assert.deepEqual(events.map((one) => [one.kind, one.id]).sort(), [["failed", "thrown"], ["misuse", "value"]]);
  assert.deepEqual(await worker.stop(), { started: 8, settled: 8, lost: 0 });
});

test("leases are extended at a third of their time, at most concurrency jobs run", async (t) => {
  let running = 0;
  let most = 0;
  const { worker, settled, extended } = await rig(t, { lease: 600, jobs: ["a", "b", "c"].map((id) => ({ id })) }, async (job) => {
    most = Math.max(most, ++running);
    const before = extended.length;
    await until(() => extended.filter((one) => one.id === job.id).length >= 2, `extensions beside ${before}`);
    running--;
  }, { concurrency: 2 });
  await until(() => settled.length === 3);
  assert.equal(most, 2);
  assert.deepEqual(await worker.stop(), { started: 3, settled: 3, lost: 0 });
});

test("a lost lease cancels the handler, and its settlement is dropped", async (t) => {
  let reason: unknown;
  const { worker, settled, events } = await rig(t, { lease: 600, jobs: [{ id: "a" }], extend: (job) => ({ id: job.id, expires_in_ms: 0 }) },
    (job) => new Promise<void>((resolve) => job.signal.addEventListener("abort", () => {
      reason = job.signal.reason;
      resolve();
    })));
  await until(() => worker.stats.lost === 1);
  assert.ok(reason instanceof LeaseLost);
  assert.deepEqual(await worker.stop(), { started: 1, settled: 0, lost: 1 });
  assert.deepEqual([settled.length, events.map((one) => one.kind)], [0, ["lost"]]);
});

test("a stale settlement counts as lost", async (t) => {
  const { worker, events } = await rig(t, { jobs: [{ id: "a" }], settle: (job) => ({ id: job.id, stale: true }) }, () => {});
  await until(() => worker.stats.lost === 1);
  assert.deepEqual(await worker.stop(), { started: 1, settled: 0, lost: 1 });
  assert.deepEqual(events.map((one) => one.kind), ["lost"]);
});

test("settlements are repeated until they are answered", async (t) => {
  let unknown = 1;
  const { worker, settled } = await rig(t, { jobs: [{ id: "a" }], fail: 2, settle: (job) => unknown-- > 0
    ? { id: job.id, reason: "outcome_unknown", retry_after_ms: 5 } : { id: job.id, state: "delivered" } }, () => {});
  await until(() => worker.stats.settled === 1);
  assert.equal(settled.length, 2);
  await worker.stop();
});

test("a handler that blocks the event loop past its lease is reported", async (t) => {
  const { worker, events } = await rig(t, { lease: 40, jobs: [{ id: "a" }, { id: "b" }], extend: (job) => ({ id: job.id, expires_in_ms: 0 }),
    settle: (job) => ({ id: job.id, stale: true }) }, async (job) => {
    if (job.id === "b") return new Promise((resolve) => job.signal.addEventListener("abort", resolve));
    await new Promise(setImmediate);
    for (const end = performance.now() + 80; performance.now() < end;);
    return undefined;
  });
  await until(() => worker.stats.lost === 2);
  assert.deepEqual(events.filter((one) => one.kind === "blocked").map((one) => one.id).sort(), ["a", "b"]);
  await worker.stop();
});

test("a handler that never returns is abandoned after maxTime", async (t) => {
  const { worker, settled, events } = await rig(t, { jobs: [{ id: "a" }] }, () => new Promise(() => {}), { maxTime: "30ms" });
  await until(() => worker.stats.settled === 1);
  assert.equal(settled[0].outcome, "retry");
  assert.deepEqual(events.map((one) => one.kind), ["abandoned"]);
  await worker.stop();
});

test("settling twice is misuse", async (t) => {
  const faults: unknown[] = [];
  const { worker, settled, events } = await rig(t, { jobs: [{ id: "a" }, { id: "b" }, { id: "c" }] }, (job) => {
    job.settle(dead("first"));
    if (job.id === "a") return dead("second");
    if (job.id === "b") try { job.settle(dead("second")); } catch (error) { faults.push(error); }
    return undefined;
  });
  await until(() => worker.stats.settled === 3);
  assert.ok(settled.every((one) => one.reason === "first"));
  assert.ok(faults[0] instanceof Misuse);
  assert.deepEqual(events.map((one) => [one.kind, one.id]).sort(), [["misuse", "a"], ["misuse", "b"]]);
  assert.equal((await worker.stop()).settled, 3);
});

test("a stop gives handlers the grace, cancels them, and uses the results that still come", async (t) => {
  let finish!: () => void;
  const jobs = ["quick", "heeds", "throws", "deaf"].map((id) => ({ id }));
  const { worker, settled, finished, events } = await rig(t, { jobs }, (job) => new Promise<unknown>((resolve, reject) => {
    if (job.id === "quick") finish = () => resolve(undefined);
    if (job.id === "heeds") job.signal.addEventListener("abort", () => setTimeout(() => resolve(dead("half done")), 20));
    if (job.id === "throws") job.signal.addEventListener("abort", () => reject(job.signal.reason));
  }));
  await until(() => worker.stats.started === 4);
  const stopped = worker.stop({ grace: "50ms" });
  finish();
  assert.deepEqual(await stopped, { started: 4, settled: 4, lost: 0 });
  assert.deepEqual(outcomes(settled), {
    quick: { outcome: "delivered" }, heeds: { outcome: "dead", reason: "half done" },
    throws: { outcome: "retry", reason: "the worker stopped" }, deaf: { outcome: "retry", reason: "the worker stopped" },
  });
  assert.deepEqual(events.map((one) => [one.kind, one.id]), [["abandoned", "deaf"]]);
  await finished;
});

test("a lease request under way at a stop may still be answered, and its jobs are released", async (t) => {
  const settled: any[] = [];
  let answer: (() => void) | undefined;
  const { client } = await fake(t, (request, response) => {
    if (request.path.endsWith("/leases")) return (answer = () => send(response, 200, { jobs: [leased("a")] }));
    settled.push(...request.json.jobs);
    return send(response, 200, { jobs: [{ id: "a", state: "waiting" }] });
  });
  const worker = client.worker("q", () => {});
  void worker.start();
  await until(() => answer !== undefined);
  const stopped = worker.stop();
  answer!();
  assert.deepEqual(await stopped, { started: 0, settled: 1, lost: 0 });
  assert.deepEqual(settled, [{ id: "a", lease: "l-a", outcome: "released" }]);
});

test("a lease is extended until its settlement is answered", async (t) => {
  const paths: string[] = [];
  let answered = false;
  const { client, events } = await fake(t, (request, response) => {
    const part = request.path.split("/").at(-1)!;
    if (part === "leases") return paths.length === 0 && paths.push(part) ? send(response, 200, { jobs: [leased("a", 3000)] }) : undefined;
    paths.push(part);
    if (part === "extend") return send(response, 200, { jobs: [{ id: "a", expires_in_ms: 3000 }] });
    const settles = paths.filter((one) => one === "settle").length;
    if (settles < 4) return undefined; // hangs for longer than the first lease
    answered = true;
    return send(response, 200, { jobs: [{ id: "a", state: "delivered" }] });
  });
  const worker = client.worker("q", () => {});
  void worker.start();
  await until(() => answered);
  assert.deepEqual(await worker.stop(), { started: 1, settled: 1, lost: 0 });
  assert.ok(paths.filter((one) => one === "extend").length >= 2, String(paths));
  assert.deepEqual(events.map((one) => one.kind), ["settle_failed", "settle_failed", "settle_failed"]);
});

test("only the answer to a settlement says whether a settled job's lease was lost", async (t) => {
  let reply!: () => void;
  let extended = 0;
  let jobs = [leased("a", 300)];
  const { client, events } = await fake(t, (request, response) => {
    if (request.path.endsWith("/leases")) return jobs.length > 0 ? send(response, 200, { jobs: jobs.splice(0) }) : undefined;
    if (request.path.endsWith("/settle")) return (reply = () => send(response, 200, { jobs: [{ id: "a", state: "delivered" }] }));
    extended++;
    return send(response, 200, { jobs: [{ id: "a", expires_in_ms: 0 }] });
  });
  const worker = client.worker("q", () => {});
  void worker.start();
  await until(() => extended === 1);
  reply();
  await until(() => worker.stats.settled === 1);
  assert.deepEqual([await worker.stop(), events, extended], [{ started: 1, settled: 1, lost: 0 }, [], 1]);
});

test("a settlement with an unknown outcome does not keep back the others", async (t) => {
  const gates: Record<string, () => void> = {};
  const { worker, settled } = await rig(t, { jobs: [{ id: "a" }, { id: "b" }], settle: (job) => settled.length === 1
    ? { id: "a", reason: "outcome_unknown", retry_after_ms: 1000 } : { id: job.id, state: "delivered" } },
  (job) => new Promise<void>((resolve) => (gates[job.id] = resolve)));
  await until(() => worker.stats.started === 2);
  gates["a"]!();
  await until(() => settled.length === 1);
  gates["b"]!();
  await until(() => worker.stats.settled === 2);
  assert.deepEqual(settled.map((one) => one.id), ["a", "b", "a"]);
  await worker.stop();
});

test("SIGTERM stops a worker that runs", async (t) => {
  const { client } = await fake(t, () => {});
  const worker = client.worker("q", () => {});
  const finished = worker.run();
  process.emit("SIGTERM");
  assert.deepEqual(await finished, { started: 0, settled: 0, lost: 0 });
  assert.equal(process.listenerCount("SIGTERM"), 0);
});

test("a worker keeps trying while the server is away, or has no such queue", async (t) => {
  const r: Rig = { jobs: [{ id: "a" }], away: true };
  const { worker, events } = await rig(t, r, () => {});
  await until(() => events.filter((one) => one.kind === "lease_failed").length >= 2);
  r.away = false;
  await until(() => worker.stats.settled === 1);
  await worker.stop();
  const { client, events: reports } = await fake(t, (_, response) => send(response, 404, { reason: "unknown_queue" }));
  const lost = client.worker("q", () => {});
  void lost.start();
  await until(() => reports.length >= 2);
  assert.ok(reports.every(({ error }) => error instanceof Refused && error.reason === "unknown_queue"));
  await lost.stop();
  assert.throws(() => client.worker("q", () => {}, { concurrency: 0 }), Misuse);
  assert.throws(() => client.worker("q", 5 as any), Misuse);
});

test("a settlement that the server cannot accept does not keep back the others", async (t) => {
  let open!: () => void;
  const gate = new Promise<void>((resolve) => (open = resolve));
  const settled: string[] = [];
  let leased = false;
  const { client } = await fake(t, (request, response) => {
    if (request.path.endsWith("/leases")) {
      if (leased) return;
      leased = true;
      const job = { content_type: "application/json", cost: 1, attempt: 1, appended_at: "2026-01-01T00:00:00Z", expires_at: "", expires_in_ms: 9999 };
      return send(response, 200, { jobs: ["a", "bad", "c"].map((id) => ({ ...job, id, lease: id })) });
    }
    if (request.json.jobs.some((job: any) => job.id === "bad")) return send(response, 400, { reason: "invalid_field" });
    settled.push(...request.json.jobs.map((job: any) => job.id));
    send(response, 200, { jobs: request.json.jobs.map((job: any) => ({ id: job.id, state: "delivered" })) });
  });
  const worker = client.worker("q", () => gate);
  void worker.start();
  await until(() => worker.stats.started === 3);
  open();
  await until(() => worker.stats.settled === 2 && worker.stats.lost === 1);
  assert.deepEqual(settled.sort(), ["a", "c"]);
  await worker.stop();
});

test("payloads: the text is kept, bytes are decoded", async (t) => {
  const seen: any[] = [];
  const { client } = await fake(t, (request, response) => {
    if (request.path.endsWith("/leases") && seen.length === 0) {
      seen.push(0);
      const rest = '"content_type":"application/json","cost":1,"attempt":2,"appended_at":"2026-01-01T00:00:00Z","lease":"l","expires_at":"","expires_in_ms":9999';
      return response.end(`{"jobs": [{"id":"a","payload": {"n": 12345678901234567890, "s":"}\\\\\\"]" },${rest}},{"id":"b","payload_base64":"aGk=",${rest}}]}`);
    }
    if (request.json.jobs) send(response, 200, { jobs: request.json.jobs.map((job: any) => ({ id: job.id, state: "delivered" })) });
    return undefined;
  });
  const jobs: any[] = [];
  const worker = client.worker("q", (job) => void jobs.push(job));
  void worker.start();
  await until(() => worker.stats.settled === 2);
  assert.equal(jobs[0].payloadText, '{"n": 12345678901234567890, "s":"}\\\\\\"]" }');
  assert.equal(jobs[0].payload.s, '}\\"]');
  assert.deepEqual([jobs[1].payload, String(jobs[1].payloadBytes), jobs[1].attempt], [undefined, "hi", 2]);
  await worker.stop();
});

test("slices of JSON text", () => {
  const object = ' { "a" : [1,{"b":"]"}] , "\\u0062":"\\\\" ,"c":-1.5e3,"d":"x\\"}"}';
  assert.deepEqual([...parts(object)], [["a", '[1,{"b":"]"}]'], ["b", '"\\\\"'], ["c", "-1.5e3"], ["d", '"x\\"}"']]);
  assert.deepEqual([...parts('[ 1, "a,b" , [] ,{}, null]').values()], ["1", '"a,b"', "[]", "{}", "null"]);
  assert.deepEqual([parts("{}").size, parts(" []").size], [0, 0]);
  const long = JSON.stringify("\\\"x".repeat(1 << 20));
  assert.equal(parts(`{"a":${long}}`).get("a"), long);
});

test("reasons are cut to 512 bytes at a character", () => {
  assert.equal(clip("x".repeat(600)).length, 512);
  assert.equal(clip("x" + "é".repeat(400)), "x" + "é".repeat(255));
});
