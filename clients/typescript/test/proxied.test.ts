import assert from "node:assert/strict";
import { test } from "node:test";
import { Misuse, Penstock, problemOf, proxyHeaders, Refused } from "penstock";

const problem = {
  type: "https://example.com/no_turn", title: "no turn", status: 429, reason: "no_turn", detail: "later",
  retry_after_ms: 1500, error: { message: "no turn: later", type: "penstock", code: "no_turn" },
};
const kind = { "Content-Type": "application/problem+json" };
const body = JSON.stringify(problem);
const response = (text = body, headers: Record<string, string> = kind) => new Response(text, { status: 429, headers });

function check(found: Refused | undefined): void {
  assert.ok(found instanceof Refused);
  assert.deepEqual([found.status, found.reason, found.retryAfter], [429, "no_turn", 1.5]);
}

test("the URL of the proxy", () => {
  for (const [url, queue, want] of [
    ["http://127.0.0.1:8080", "openai", "http://127.0.0.1:8080/proxy/openai"],
    ["https://penstock.test:443/below/", "group.child", "https://penstock.test/below/proxy/group.child"],
    ["http://[::1]:8080", "a/../b?c#d", "http://[::1]:8080/proxy/a%2F..%2Fb%3Fc%23d"],
    ["unix:///run/penstock.sock", "openai", "http://localhost/proxy/openai"],
  ] as const) assert.equal(new Penstock({ url, token: "t" }).proxyUrl(queue), want);
  const client = new Penstock({ url: "http://127.0.0.1:8080", token: "t" });
  for (const name of ["", ".", "..", undefined as unknown as string]) assert.throws(() => client.proxyUrl(name), Misuse);
});

test("the headers of a call", () => {
  assert.deepEqual(proxyHeaders({}), {});
  assert.deepEqual(proxyHeaders({ lane: "a", cost: 3, priority: 0, wait: "1m30s", retry: "throttled" }), {
    "Penstock-Lane": "a", "Penstock-Cost": "3", "Penstock-Priority": "0", "Penstock-Wait": "90000ms", "Penstock-Retry": "throttled",
  });
  assert.deepEqual(proxyHeaders({ costs: { tokens: 1800, images: 2 } }), { "Penstock-Costs": "tokens=1800, images=2" });
  assert.throws(() => proxyHeaders({ wait: "soon" }), Misuse);
});

test("a lane is sent as UTF-8", () => {
  const { "Penstock-Lane": lane } = proxyHeaders({ lane: "größe/日本" });
  assert.equal(Buffer.from(new Headers({ lane: lane! }).get("lane")!, "latin1").toString("utf8"), "größe/日本");
});

test("a refusal by Penstock, whose body can still be read", async () => {
  const answer = response();
  check(await problemOf(answer));
  assert.equal(await answer.text(), body);
  check(await problemOf(response(body, { "content-type": "Application/Problem+JSON; charset=utf-8" })));
  check(await problemOf(response(body, { ...kind, "Server-Timing": "penstockish;dur=1, edge" })));
});

test("answers of the receiver, and what is not a refusal", async () => {
  for (const answer of [
    response(body, { ...kind, "Server-Timing": "db;dur=3, penstock;dur=0.1" }),
    response(body, { "Content-Type": "application/json" }),
    response('{"title": "Too Many Requests", "status": 429}'), response("slow down"), response("[1]"), response(""),
  ]) {
    const clone = answer.clone();
    assert.equal(await problemOf(answer), undefined);
    assert.equal(await answer.text(), await clone.text());
  }
  const read = response();
  await read.text();
  for (const other of [read, undefined, null, "429", new Error("no status"), { status: 429 }]) {
    assert.equal(await problemOf(other), undefined);
  }
});

// The shapes of the errors of openai (the member error of a body), @anthropic-ai/sdk (the body) and axios.
test("errors of SDKs", async () => {
  const error = (fields: object) => Object.assign(new Error("429"), fields);
  const passed = { "server-timing": "penstock;dur=0.1" };
  const headers = new Headers({ ...kind, "Retry-After": "2", "Retry-After-Ms": "1500" });
  const nested = await problemOf(error({ status: 429, headers, error: problem.error, code: "no_turn" }));
  check(nested);
  assert.equal(nested!.detail, "no turn: later");
  check(await problemOf(error({ status: 429, headers: Object.fromEntries(headers), error: problem.error })));
  check(await problemOf(error({ status: 429, headers, error: problem })));
  check(await problemOf(error({ response: { status: 429, headers: Object.fromEntries(headers), data: problem } })));
  check(await problemOf(error({ response: response() })));
  for (const other of [
    { headers: new Headers({ ...kind, ...passed }), error: problem.error }, { headers: passed, error: problem },
    { headers, error: { message: "slow down", type: "requests", code: "rate_limit_exceeded" } },
    { headers: {}, error: { type: "error", error: { type: "rate_limit_error", message: "slow down" } } },
    { headers: {}, error: { reason: "no_turn" } }, { headers, error: "text" }, { headers },
  ]) assert.equal(await problemOf(error({ status: 429, ...other })), undefined);
});
