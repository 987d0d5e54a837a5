import assert from "node:assert/strict";
import type http from "node:http";
import { test } from "node:test";
import { Cancelled, Misuse, Refused, Unreachable, type Job, type StreamResult } from "penstock";
import { fake, until, type Request } from "./fake.js";

function* jobs(count: number): Generator<Job> {
  for (let i = 0; i < count; i++) yield { id: `j${i}`, payload: i };
}

type Line = (job: any, index: number) => object;

const accept: Line = (job) => ({ status: 202, id: job.id, state: "waiting" });

function respond(request: Request, response: http.ServerResponse, line: Line = accept): void {
  response.writeHead(200, { "Content-Type": "application/x-ndjson", Connection: "close" });
  request.lines.forEach((job, i) => response.write(JSON.stringify({ line: i + 1, ...line(job, i) }) + "\n"));
  response.end();
}

async function all(results: AsyncIterable<StreamResult>): Promise<StreamResult[]> {
  const list: StreamResult[] = [];
  for await (const result of results) list.push(result);
  return list;
}

test("a stream yields one result per job", async (t) => {
  const { client, seen } = await fake(t, (request, response) => respond(request, response));
  const results = await all(client.appendStream("q", jobs(2500)));
  assert.equal(new Set(results.map((one) => one.id)).size, 2500);
  assert.ok(results.every((one) => !one.error && one.state === "waiting" && !one.duplicate));
  assert.ok(seen.every((one) => one.lines.length <= 1000));
  assert.deepEqual(await client.appendMany("q", []), []);
});

test("appendMany keeps the order, ids are generated, and invalid jobs are errors beside the others", async (t) => {
  const { client } = await fake(t, (request, response) => respond(request, response, (job) => job.id === "bad"
    ? { status: 400, reason: "invalid_field", field: "cost" } : { status: job.id === "old" ? 200 : 202, id: job.id, state: "waiting" }));
  const [a, old, invalid, bad] = await client.appendMany("q",
    [{ payload: 1 }, { id: "old", payload: 1 }, { id: "i", payload: 1n }, { id: "bad", payload: 1, cost: 0 }]);
  assert.match(a!.id, /^[0-9a-f-]{36}$/);
  assert.equal(old!.error === undefined && old!.duplicate, true);
  assert.ok(invalid!.error instanceof Misuse && invalid!.id === "i");
  assert.ok(bad!.error instanceof Refused && bad!.error.field === "cost" && bad!.id === "bad" && bad!.error.id === "bad");
});

test("a refused job is sent again after its time, then its refusal is the result", async (t) => {
  const first = new Map<string, number>();
  const { client } = await fake(t, (request, response) => respond(request, response, (job) => {
    if (job.id === "j2") return { status: 429, reason: "full", retry_after_ms: 100_000 };
    const now = performance.now();
    if (!first.has(job.id)) first.set(job.id, now);
    return now - first.get(job.id)! < 50 ? { status: 429, reason: "full", retry_after_ms: 60 } : accept(job, 0);
  }));
  const results = await client.appendMany("q", jobs(3));
  assert.deepEqual(results.map((one) => one.error instanceof Refused && one.error.retryAfter), [false, false, 100]);
  first.clear();
  const never = await client.appendMany("q", jobs(2), { retryFor: 0 });
  assert.ok(never.every((one) => one.error instanceof Refused && one.error.reason === "full"));
});

test("unanswered jobs of a broken stream are sent again with the same ids", async (t) => {
  let streams = 0;
  const { client, seen, events } = await fake(t, (request, response) => {
    if (++streams > 2) return respond(request, response);
    response.writeHead(200, { "Content-Type": "application/x-ndjson" });
    response.write(JSON.stringify({ line: 1, ...accept(request.lines[0], 0) }) + '\n{"line":2,"sta');
    setTimeout(() => response.destroy(), 5);
  });
  const results = await client.appendMany("q", jobs(10), { inFlight: 20 });
  assert.ok(results.every((one) => !one.error));
  const sent = seen.flatMap((one) => one.lines.map((job) => job.id));
  assert.equal(new Set(sent).size, 10);
  assert.ok(sent.length > 10);
  assert.ok(events.some((one) => one.kind === "resend" && one.error instanceof Unreachable));
});

test("a stream that ends in order but early, by a stop or an expired token, is continued", async (t) => {
  for (const reason of ["stopping", "unauthenticated", "body_incomplete", undefined]) {
    let streams = 0;
    const status = { stopping: 503, unauthenticated: 401, body_incomplete: 400 }[reason ?? ""];
    const { client } = await fake(t, (request, response) => {
      if (++streams > 1) return respond(request, response);
      const last = reason ? JSON.stringify({ line: 2, status, reason, retry_after_ms: 5 }) + "\n" : "";
      response.end(JSON.stringify({ line: 1, ...accept(request.lines[0], 0) }) + "\n" + last);
    });
    const results = await client.appendMany("q", jobs(5), { inFlight: 10 });
    assert.ok(results.length === 5 && results.every((one) => !one.error), reason);
  }
});

test("the refusal of a request is thrown, or the result of each job of a stream", async (t) => {
  const { client, seen } = await fake(t, (_, response) => response.writeHead(404).end('{"reason":"unknown_queue"}'));
  await assert.rejects(client.appendMany("q", jobs(5)), (error) => error instanceof Refused && error.reason === "unknown_queue");
  assert.equal(seen.length, 1);
  const results = await all(client.appendStream("q", jobs(5)));
  assert.deepEqual(results.map(({ error }) => error instanceof Refused && error.reason), Array(5).fill("unknown_queue"));
});

test("the source is not read ahead of the results", async (t) => {
  let taken = 0;
  let returned = false;
  async function* source(): AsyncGenerator<Job> {
    try {
      for (;;) yield { payload: ++taken };
    } finally {
      returned = true;
    }
  }
  const { client, seen } = await fake(t, (request, response) => respond(request, response));
  let read = 0;
  for await (const _ of client.appendStream("q", source(), { inFlight: 10 })) {
    read++;
    assert.ok(taken <= read + 10, `${taken} taken, ${read} read`);
    if (read === 5) await until(() => seen.length > 1 || taken === 14);
    if (read === 100) break;
  }
  await until(() => returned);
  assert.ok(taken <= 110);
});

test("a lone job of a slow source is sent at once", async (t) => {
  const { client } = await fake(t, (request, response) => respond(request, response));
  let answered!: () => void;
  const first = new Promise<void>((resolve) => (answered = resolve));
  async function* source(): AsyncGenerator<Job> {
    yield { payload: 1 };
    await first;
    yield { payload: 2 };
  }
  let count = 0;
  for await (const _ of client.appendStream("q", source())) {
    count++;
    answered();
  }
  assert.equal(count, 2);
});

test("a source that fails, and a caller that cancels", async (t) => {
  let hang = false;
  const { client } = await fake(t, (request, response) => hang ? undefined : respond(request, response));
  function* failing(): Generator<Job> {
    yield { payload: 1 };
    throw new Error("source");
  }
  const seen: StreamResult[] = [];
  await assert.rejects(async () => {
    for await (const result of client.appendStream("q", failing())) seen.push(result);
  }, /source/);
  assert.equal(seen.length, 1);
  hang = true;
  const control = new AbortController();
  const stream = all(client.appendStream("q", jobs(3), { signal: control.signal }));
  setTimeout(() => control.abort(), 10);
  await assert.rejects(stream, Cancelled);
  const [late] = await client.appendMany("q", jobs(1), { timeout: 0.05, retryFor: 0 });
  assert.ok(late!.error instanceof Unreachable);
  await assert.rejects(client.appendMany("q", 5 as any), Misuse);
});
