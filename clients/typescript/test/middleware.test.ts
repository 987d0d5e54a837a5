import assert from "node:assert/strict";
import http from "node:http";
import type { AddressInfo } from "node:net";
import { test, type TestContext } from "node:test";
import { expressLimit, fastifyLimit, Misuse, type Penstock } from "penstock";
import { fake, send, until, type Answer } from "./fake.js";

const limits = { "RateLimit": '"r";r=0;t=2', "RateLimit-Policy": '"r";q=2;w=60' };

const refuse: Answer = (_, response) =>
  send(response, 429, { reason: "limit_reached", allowed: false, limit: 2, remaining: 0, retry_after_ms: 1200, reset_after_ms: 2000 }, limits);
const allow: Answer = (_, response) =>
  send(response, 200, { allowed: true, limit: 2, remaining: 1, retry_after_ms: 0, reset_after_ms: 100 }, limits);

/** site serves "fine" behind the middleware, and returns its address. */
async function site(t: TestContext, middleware: ReturnType<typeof expressLimit>): Promise<string> {
  const server = http.createServer((request, response) =>
    middleware(request, response, (error) => error ? response.writeHead(500).end() : response.end("fine")));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

const keyed = (client: Penstock) => expressLimit(client, { rule: "r", key: (request) => request.headers["x-user"] });

test("a refused take is a result", async (t) => {
  const { client, seen } = await fake(t, refuse);
  const taken = await client.take("r", { key: "k", cost: 2, wait: "1s" });
  const { answer, ...rest } = taken;
  assert.deepEqual(rest, { allowed: false, limit: 2, remaining: 0, retryAfter: 1.2, resetAfter: 2, headers: limits });
  assert.equal(answer.reason, "limit_reached");
  assert.deepEqual(seen[0]!.json, { key: "k", cost: 2, wait: "1000ms" });
});

test("a refused request gets 429 with its headers and a problem", async (t) => {
  const { client, seen } = await fake(t, refuse);
  const url = await site(t, keyed(client));
  const response = await fetch(url, { headers: { "x-user": "ann" } });
  const head = (name: string) => response.headers.get(name);
  assert.deepEqual([response.status, head("retry-after"), head("ratelimit"), head("ratelimit-policy"), head("content-type")],
    [429, "2", limits.RateLimit, limits["RateLimit-Policy"], "application/problem+json"]);
  const problem = await response.json() as any;
  assert.deepEqual([problem.status, problem.reason, problem.retry_after_ms], [429, "limit_reached", 1200]);
  assert.match(problem.type, /^https:.*\/problems\/limit_reached$/);
  assert.equal(seen[0]!.json.key, "ann");
  assert.equal(await (await fetch(url)).text(), "fine"); // no key: not limited
  assert.equal(seen.length, 1);
});

test("an allowed request passes with the headers", async (t) => {
  const { client } = await fake(t, allow);
  const response = await fetch(await site(t, keyed(client)), { headers: { "x-user": "ann" } });
  assert.deepEqual([await response.text(), response.headers.get("ratelimit")], ["fine", limits.RateLimit]);
});

test("onError decides when the rule cannot be asked", async (t) => {
  const { client, events, seen } = await fake(t, (request) => request.raw.socket.destroy());
  const open = await fetch(await site(t, expressLimit(client, { rule: "r" })));
  assert.equal(await open.text(), "fine");
  const closed = await fetch(await site(t, expressLimit(client, { rule: "r", onError: "refuse" })));
  assert.deepEqual([closed.status, closed.headers.get("retry-after")], [503, "1"]);
  assert.deepEqual(events.map((one) => one.kind), ["rule_failed", "rule_failed"]);
  assert.equal(seen.length, 2);
  assert.throws(() => expressLimit(client, {} as any), Misuse);
});

test("the timeout counts beside wait", async (t) => {
  const { client, events } = await fake(t, () => {});
  const response = await fetch(await site(t, expressLimit(client, { rule: "r", wait: "20ms", timeout: "30ms" })));
  assert.equal(await response.text(), "fine");
  assert.match(String(events[0]!.error), /no answer within 0.05 s/);
});

test("the place of a concurrency rule is given back when the response ends", async (t) => {
  const { client, seen } = await fake(t, (request, response) => send(response, 200, { allowed: true, ...(request.path.endsWith("/take") && { lease: "p" }) }));
  await fetch(await site(t, expressLimit(client, { rule: "r", key: () => "k" })), { headers: { connection: "close" } });
  await until(() => seen.length === 2);
  assert.deepEqual([seen[1]!.path, seen[1]!.json], ["/v1/rules/r/refund", { key: "k", lease: "p" }]);
});

test("Fastify", async (t) => {
  const { client } = await fake(t, refuse);
  const sent: any = { headers: {} };
  const reply: any = {
    raw: { once() {} }, code: (status: number) => (sent.status = status, reply),
    header: (name: string, value: string) => (sent.headers[name] = value, reply), send: (body: string) => (sent.body = body, reply),
  };
  assert.equal(await fastifyLimit(client, { rule: "r" })({}, reply), reply);
  assert.deepEqual([sent.status, sent.headers["Retry-After"], JSON.parse(sent.body).reason], [429, "2", "limit_reached"]);
});
