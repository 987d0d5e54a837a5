import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile, utimes } from "node:fs/promises";
import http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Cancelled, Misuse, Penstock, Refused, TimedOut, Unreachable } from "penstock";
import { seconds, text } from "../src/duration.js";
import { retryAfterOf } from "../src/errors.js";
import { maxTries, mayRetry, pause } from "../src/retry.js";
import { fake, send } from "./fake.js";

test("durations are seconds or text", () => {
  assert.equal(seconds(1.5), 1.5);
  assert.equal(seconds("1h30m"), 5400);
  assert.equal(seconds("250ms"), 0.25);
  assert.equal(text("1.5s"), "1500ms");
  for (const bad of ["", "5", "5 s", "s", -1, NaN, Infinity]) assert.throws(() => seconds(bad), Misuse);
});

test("Retry-After: milliseconds first, else seconds, else a date", () => {
  assert.equal(retryAfterOf(1500, "9"), 1.5);
  assert.equal(retryAfterOf(undefined, "9"), 9);
  const now = "Fri, 02 Jan 2026 15:04:05 GMT";
  assert.equal(retryAfterOf(undefined, "Fri, 02 Jan 2026 15:04:15 GMT", now), 10);
  assert.equal(retryAfterOf(undefined, "Fri, 02 Jan 2026 15:04:01 GMT", now), 0);
  const later = new Date(Date.now() + 60_000).toUTCString();
  assert.ok(retryAfterOf(undefined, later) > 50);
  for (const bad of [undefined, null, "", "soon", "-5"]) assert.equal(retryAfterOf(undefined, bad, now), 0);
});

test("the retry policy", () => {
  const refused = (status: number, reason = "x") => new Refused(status, { reason });
  for (const error of [new Unreachable(), refused(502), refused(503), refused(504), refused(429, "crowded"),
    refused(429, "over_share"), refused(429, "app_limit")]) assert.ok(mayRetry(error));
  for (const error of [new TimedOut(), new Cancelled(), new Misuse("x"), refused(500), refused(404), refused(429, "full"),
    refused(429, "no_turn"), new Error("x")]) assert.ok(!mayRetry(error));
  assert.equal(pause(3, 0, () => 0.5), 0.4);
  assert.equal(pause(20, 0, () => 1), 10);
  assert.equal(pause(1, 7, () => 1), 7);
});

test("an append is repeated with the same id until it is answered", async (t) => {
  let tries = 0;
  const { client, seen, events } = await fake(t, (request, response) => {
    if (++tries === 1) return request.raw.socket.destroy();
    if (tries === 2) return send(response, 503, { reason: "unavailable", status: 503, retry_after_ms: 20 });
    send(response, 202, { id: request.json.id, state: "waiting", position: 1, new_field: [1] });
  });
  const result = await client.append("q/1", { payload: { a: 1 } }, { traceparent: "00-1" });
  assert.equal(seen[0]!.path, "/v1/queues/q%2F1/jobs");
  assert.equal(new Set(seen.map((one) => one.json.id)).size, 1);
  assert.deepEqual(result, { id: seen[0]!.json.id, state: "waiting", position: 1, new_field: [1], duplicate: false } as unknown);
  assert.deepEqual(events.map(({ kind, attempt }) => [kind, attempt]), [["retry", 1], ["retry", 2]]);
  assert.equal(seen[0]!.headers["traceparent"], "00-1");
  assert.match(seen[0]!.headers["user-agent"]!, /^penstock-typescript\/\d/);
  assert.equal(seen[0]!.headers["authorization"], "Bearer t");
});

test("a call gives up after five tries with the last error", async (t) => {
  const { client, seen } = await fake(t, (_, response) => send(response, 503, { reason: "unavailable" }));
  await assert.rejects(client.get("q", "a"), (error) => error instanceof Refused && error.reason === "unavailable");
  assert.equal(seen.length, maxTries);
});

test("a call does not wait beyond its timeout", async (t) => {
  const { client, seen } = await fake(t, (_, response) => send(response, 503, { reason: "unavailable", retry_after_ms: 60_000 }));
  await assert.rejects(client.get("q", "a"), (error) => error instanceof Refused && error.retryAfter === 60);
  assert.equal(seen.length, 1);
});

test("a full queue, a take and a refund are not repeated", async (t) => {
  const { client, seen } = await fake(t, (request, response) => request.path.endsWith("/jobs")
    ? send(response, 429, { reason: "full", detail: "no room", id: "a", field: "f" }, { "Retry-After": "3" })
    : send(response, 503, { reason: "unavailable" }));
  await assert.rejects(client.append("q", { payload: 1, id: "a" }), (error) => {
    assert.ok(error instanceof Refused);
    assert.deepEqual([error.status, error.reason, error.retryAfter, error.id, error.field], [429, "full", 3, "a", "f"]);
    return true;
  });
  await assert.rejects(client.take("r"), Refused);
  await assert.rejects(client.refund("r"), Refused);
  assert.equal(seen.length, 3);
});

test("timeouts and cancellation", async (t) => {
  const { client } = await fake(t, () => {});
  await assert.rejects(client.get("q", "a", { timeout: 0.02 }), TimedOut);
  const control = new AbortController();
  const call = client.get("q", "a", { signal: control.signal });
  control.abort();
  await assert.rejects(call, (error) => error instanceof Cancelled && error.name === "AbortError");
  await assert.rejects(client.get("q", "a", { signal: AbortSignal.abort() }), Cancelled);
});

test("a truncated answer is unreachable, a proxy's page is http_error, and redirects are not followed", async (t) => {
  const { client, seen } = await fake(t, (request, response) => {
    if (request.path.endsWith("/cut")) {
      response.writeHead(200, { "Content-Length": 100 });
      response.write("{");
      return setTimeout(() => response.destroy(), 5);
    }
    if (request.path.endsWith("/moved")) return response.writeHead(307, { Location: "http://127.0.0.1:1/" }).end();
    response.writeHead(404, { "Content-Type": "text/html" }).end("<h1>Nothing</h1>");
  });
  await assert.rejects(client.get("q", "cut", { timeout: 5 }), Unreachable);
  assert.equal(seen.length, maxTries);
  await assert.rejects(client.get("q", "page"), (error) => error instanceof Refused && error.reason === "http_error" && /Nothing/.test(error.detail));
  await assert.rejects(client.get("q", "moved"), (error) => error instanceof Refused && error.status === 307);
});

test("tokens: a callback is asked again after a 401, once", async (t) => {
  let asked = 0;
  const { client, seen, events } = await fake(t, (request, response) => request.headers.authorization === "Bearer t2"
    ? send(response, 200, { allowed: true }) : send(response, 401, { reason: "unauthenticated" }), { token: async () => `t${++asked}` });
  assert.equal((await client.take("r")).allowed, true);
  assert.equal((await client.take("r")).allowed, true);
  assert.deepEqual([asked, seen.length], [2, 3]);
  assert.ok(events.length === 0 || events[0]!.kind === "token");
});

test("tokens: a constant token gives one 401", async (t) => {
  const { client, seen } = await fake(t, (_, response) => send(response, 401, { reason: "unauthenticated" }));
  await assert.rejects(client.get("q", "a"), Refused);
  assert.equal(seen.length, 1);
});

test("tokens: a file is read again when it changes", async (t) => {
  const dir = await mkdtemp(join(tmpdir(), "penstock-"));
  t.after(() => rm(dir, { recursive: true }));
  const file = join(dir, "token");
  await writeFile(file, "one\n");
  const { client, seen } = await fake(t, (_, response) => send(response, 200, {}), { token: { file } });
  await client.get("q", "a");
  await writeFile(file, "another\n");
  await utimes(file, 1, 1);
  await client.get("q", "a");
  await rm(file);
  await client.get("q", "a");
  assert.deepEqual(seen.map((one) => one.headers.authorization), ["Bearer one", "Bearer another", "Bearer another"]);
  await assert.rejects(new Penstock({ url: "http://127.0.0.1:1", token: { file } }).get("q", "a"), Misuse);
});

test("jobs: payloads are checked, and JSON text is passed on unchanged", async (t) => {
  const { client, seen } = await fake(t, (request, response) => send(response, 202, { id: request.json.id, state: "waiting" }));
  await client.append("q", { payloadJson: '{ "n": 12345678901234567890 }', id: "a", notBefore: new Date(0) });
  assert.match(seen[0]!.body, /"payload":\{ "n": 12345678901234567890 \}\}$/);
  assert.match(seen[0]!.body, /"not_before":"1970-01-01T00:00:00.000Z"/);
  await client.append("q", { payloadBytes: Buffer.from("hi"), contentType: "text/plain" });
  assert.deepEqual([seen[1]!.json.payload_base64, seen[1]!.json.content_type], ["aGk=", "text/plain"]);
  await client.append("q", { payload: null });
  assert.equal(seen[2]!.json.payload, null);
  const loop: any = {};
  loop.loop = loop;
  for (const job of [{}, { payload: 1, payloadJson: "1" }, { payload: 1n }, { payload: loop }, { payload: () => 1 },
    { payloadJson: '1,"id":"x"' }, { payload: 1, notBefore: new Date(NaN) }, null as any]) {
    await assert.rejects(client.append("q", job), Misuse, JSON.stringify(job, (_, value) => String(value)));
  }
  await assert.rejects(client.append("", { payload: 1 }), Misuse);
  assert.equal(seen.length, 3);
});

test("list follows pages; wait returns when the job has ended", async (t) => {
  let polls = 0;
  const { client, seen } = await fake(t, (request, response) => request.path.includes("?")
    ? send(response, 200, request.path.includes("after=n1") ? { jobs: [{ id: "c" }] } : { jobs: [{ id: "a" }, { id: "b" }], next: "n1" })
    : send(response, 200, { id: "a", state: ++polls < 3 ? "waiting" : "dead" }));
  const ids: string[] = [];
  for await (const job of client.list("q", { state: "dead", limit: 2 })) ids.push(job.id);
  assert.deepEqual(ids, ["a", "b", "c"]);
  assert.equal(seen[0]!.path, "/v1/queues/q/jobs?state=dead&limit=2");
  assert.equal((await client.wait("q", "a")).state, "dead");
  polls = -1000;
  await assert.rejects(client.wait("q", "a", { timeout: 0.15 }), TimedOut);
});

test("wait asks at least every 5 s, because the clock of a test server may jump", async (t) => {
  const eta = { at: new Date(Date.now() + 3_600_000).toISOString(), exact: true };
  const { client, seen } = await fake(t, (_, response) => send(response, 200, { id: "a", state: "waiting", eta }));
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const control = new AbortController();
  const waiting = client.wait("q", "a", { signal: control.signal });
  for (let polls = 1; polls <= 2; polls++) {
    while (seen.length < polls) await new Promise(setImmediate);
    for (let i = 0; i < 50; i++) await new Promise(setImmediate); // until the answer is read and the pause begins
    if (polls === 1) t.mock.timers.tick(5000);
  }
  control.abort();
  await assert.rejects(waiting, Cancelled);
});

test("a cancelled turn closes its connection", async (t) => {
  let closed!: () => void;
  const gone = new Promise<void>((resolve) => (closed = resolve));
  const control = new AbortController();
  const { client, seen } = await fake(t, (_, response) => {
    response.once("close", closed);
    control.abort();
  });
  await assert.rejects(client.turn("q", { wait: "5s", signal: control.signal }), Cancelled);
  await gone;
  assert.deepEqual(seen[0]!.json, { wait: "5000ms" });
});

test("pacedFetch waits for a turn and reports the provider's Retry-After", async (t) => {
  const { client, seen, events, url } = await fake(t, (request, response) => {
    if (request.path.endsWith("/turns")) return send(response, 200, { waited_ms: 3 });
    if (request.path.endsWith("/throttle")) return send(response, 200, { until: "2026-01-01T00:00:00Z" });
    const status = request.path.startsWith("/busy") ? 429 : request.path === "/down" ? 503 : 200;
    response.writeHead(status, request.path === "/busy" ? { "Retry-After": "7" } : {}).end("provider");
  });
  const paced = client.pacedFetch("q");
  assert.equal((await paced(`${url}/fine`)).status, 200);
  assert.equal((await paced(`${url}/busy`)).status, 429);
  assert.deepEqual(seen.map((one) => one.path), ["/v1/queues/q/turns", "/fine", "/v1/queues/q/turns", "/busy", "/v1/queues/q/throttle"]);
  assert.deepEqual(seen[4]!.json, { after: "7000ms", reason: "HTTP 429" });
  assert.equal(seen[1]!.headers.authorization, undefined);
  assert.equal(events.at(-1)!.kind, "throttled");
  await paced(`${url}/busy-without-a-time`);
  assert.deepEqual(seen.at(-1)!.json, { after: "1000ms", reason: "HTTP 429" });
  await paced(`${url}/down`);
  assert.equal(seen.at(-1)!.path, "/down"); // a 503 without Retry-After does not stop the queue
});

test("throttle tolerates a server without the route", async (t) => {
  const { client } = await fake(t, (request, response) =>
    send(response, 404, { reason: request.path.includes("/none/") ? "unknown_queue" : "not_found" }));
  assert.equal(await client.throttle("q", 30), undefined);
  await assert.rejects(client.throttle("none", 30), Refused);
});

test("events continue after the last one", async (t) => {
  let streams = 0;
  const { client, seen } = await fake(t, (_, response) => {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    if (++streams === 1) {
      response.write(": hello\n\nid: 5\nevent: reset\ndata: {\"queues\":\ndata: []}\n\nevent: info\r\ndata: {}\r\n\r\nevent: pau");
      return setTimeout(() => response.destroy(), 5);
    }
    response.write("id: 6\nevent: paused\ndata: {\"queue\":\"q\"}\n\n");
  });
  const kinds: string[] = [];
  for await (const event of client.events("q")) {
    kinds.push(`${event.kind} ${event.id ?? ""}`);
    if (kinds.length === 3) break;
  }
  assert.deepEqual(kinds, ["reset 5", "info ", "paused 6"]);
  assert.equal(seen[1]!.headers["last-event-id"], "5");
});

test("queues: conditions, parents first, forecasts", async (t) => {
  const { client, seen } = await fake(t, (_, response) => send(response, 200, { name: "q" }));
  await client.putQueue("q", { rate: "5/s" }, { ifMatch: 7 });
  await client.putQueue("q", { rate: "5/s" }, { ifNoneMatch: "*" });
  assert.deepEqual([seen[0]!.headers["if-match"], seen[1]!.headers["if-none-match"]], ['"7"', "*"]);
  await client.apply({ "a/b": {}, a: {} });
  assert.deepEqual(seen.slice(2).map((one) => one.path), ["/v1/queues/a", "/v1/queues/a%2Fb"]);
  await client.forecast("q", { rate: "50/s", set: { burst: 10 } });
  assert.equal(seen.at(-1)!.path, "/v1/queues/q/forecast?rate=50%2Fs&set=burst%3D10");
  await client.deleteQueue("q", { force: true });
  assert.equal(seen.at(-1)!.path, "/v1/queues/q?force=true");
});

test("a hook that throws does not break a call", async (t) => {
  let tries = 0;
  const { client } = await fake(t, (_, response) => send(response, ++tries === 1 ? 503 : 200, {}), { on: () => { throw new Error("hook"); } });
  await client.get("q", "a");
});

test("Unix sockets", async (t) => {
  const dir = await mkdtemp(join(tmpdir(), "penstock-"));
  const path = join(dir, "a b.sock");
  const server = http.createServer((request, response) => send(response, 200, { host: request.headers.host }));
  await new Promise<void>((resolve) => server.listen(path, resolve));
  const client = new Penstock({ url: `unix://${encodeURI(path)}` });
  t.after(async () => {
    client.close();
    server.close();
    await rm(dir, { recursive: true });
  });
  assert.equal(((await client.get("q", "a")) as any).host, "localhost");
});

test("addresses that cannot work are misuse", () => {
  for (const url of ["nonsense", "ftp://h", "http://h?x=1", "http://u:p@h", "unix://h/p"]) assert.throws(() => new Penstock({ url }), Misuse);
});

test("calls in succession share a connection, also after refusals", async (t) => {
  const { client, seen } = await fake(t, (request, response) => send(response, request.path.endsWith("no") ? 404 : 200, { big: "x".repeat(100_000) }));
  for (let i = 0; i < 5; i++) {
    await client.get("q", "a");
    await assert.rejects(client.get("q", "no"), Refused);
  }
  assert.equal(new Set(seen.map((one) => one.raw.socket.remotePort)).size, 1);
});
