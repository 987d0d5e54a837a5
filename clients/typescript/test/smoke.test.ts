// These tests run against a real server, if PENSTOCK_BIN names the program.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { writeFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { test } from "node:test";
import { startPenstock } from "penstock/testing";
import { until } from "./fake.js";

const skip = process.env["PENSTOCK_BIN"] ? false : "needs PENSTOCK_BIN";

test("append, work, wait, pace and take", { skip }, async (t) => {
  const { client, stop } = await startPenstock();
  t.after(stop);
  await client.putQueue("q", { rate: "1000/s", pull: true });
  const text = '{ "n": 12345678901234567890 }';
  assert.equal((await client.append("q", { id: "a", payloadJson: text })).position, 1);
  assert.equal((await client.append("q", { id: "a", payloadJson: text })).duplicate, true);
  const results = await client.appendMany("q", Array.from({ length: 3000 }, (_, i) => ({ payload: i })));
  assert.ok(results.every((one) => !one.error));
  const texts: unknown[] = [];
  const worker = client.worker("q", (job) => void texts.push(job.payloadText), { concurrency: 200 });
  t.after(() => worker.stop()); // also if an assertion fails: a worker keeps the process alive
  void worker.start();
  assert.equal((await client.wait("q", "a", { timeout: 10 })).state, "delivered");
  assert.ok(texts.includes(text)); // not first: the answers to two requests for jobs may overtake each other
  assert.equal((await worker.stop()).lost, 0);
  for await (const event of client.events("q")) {
    assert.equal(event.kind, "reset");
    break;
  }
  await client.putQueue("turns", { rate: "100/s", pull: true });
  assert.ok((await client.turn("turns")).waited >= 0);
  await client.ask("putRule", "PUT", "/v1/rules/r", { json: { algorithm: "meter", rate: "2/m", burst: 1, key: "{payload/to}" } });
  assert.equal((await client.take("r", { key: "k" })).allowed, true);
  const refused = await client.take("r", { key: "k" });
  assert.ok(!refused.allowed && refused.retryAfter > 0 && refused.headers.RateLimit);
});

test("the examples of the guide run", { skip }, async (t) => {
  const server = await startPenstock();
  const dir = mkdtempSync(join(tmpdir(), "penstock-"));
  t.after(async () => {
    await server.stop();
    rmSync(dir, { recursive: true });
  });
  const env = { ...process.env, PENSTOCK_URL: server.url, PENSTOCK_TOKEN: server.token };
  const path = (name: string) => fileURLToPath(new URL(`../examples/${name}.js`, import.meta.url));
  const run = async (name: string, ...args: string[]) =>
    (await promisify(execFile)(process.execPath, [path(name), ...args], { env })).stdout;
  assert.match(await run("start"), /is waiting at position 1\nsending \{ to: .*\}\n.* is delivered\n$/);
  assert.equal(await run("paced", `${server.url}/healthz`), "1 200\n2 200\n3 200\n");
  const file = join(dir, "messages.ndjson");
  writeFileSync(file, '{"to":"a"}\n{"to":"b"}\n');
  assert.equal(await run("producer", file), "2 jobs accepted\n");
  await server.client.putQueue("resize", { rate: "100/s", pull: true });
  await server.client.append("resize", { id: "a", payload: { image: `${server.url}/healthz` } });
  const worker = execFile(process.execPath, [path("worker")], { env });
  let out = "";
  worker.stdout!.on("data", (chunk: string) => (out += chunk));
  await until(() => /^a: \d+ bytes/.test(out), "the job");
  worker.kill("SIGTERM");
  await new Promise((resolve) => worker.once("close", resolve));
  assert.match(out, /1 jobs settled/);
});

test("a virtual clock moves when told", { skip }, async (t) => {
  const server = await startPenstock({ clock: "virtual" });
  t.after(() => server.stop());
  await server.client.putQueue("q", { rate: "1/s", pull: true });
  const { state } = await server.client.append("q", { id: "a", payload: 1, notBefore: new Date((await server.advance("1s")).getTime() + 60_000) });
  assert.equal(state, "scheduled");
  await server.advance("2m");
  const worker = server.client.worker("q", () => {});
  t.after(() => worker.stop());
  void worker.start();
  await until(() => worker.stats.settled === 1);
  await worker.stop();
});
