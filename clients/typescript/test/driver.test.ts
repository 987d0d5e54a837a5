import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { test } from "node:test";
import { fake, send } from "./fake.js";

test("the driver answers by number, cancels calls and ends with its input", async (t) => {
  const { url } = await fake(t, (request, response) => {
    if (request.path.endsWith("/turns")) return;
    if (request.path.endsWith("/full/jobs")) return send(response, 429, { reason: "full", id: "a", retry_after_ms: 1500 });
    send(response, 202, { id: "a", state: "waiting", text: request.body });
  });
  const path = fileURLToPath(new URL("driver.js", import.meta.url));
  // PENSTOCK_TOKEN goes before PENSTOCK_TOKEN_FILE.
  const env = { ...process.env, PENSTOCK_URL: url, PENSTOCK_TOKEN: "t", PENSTOCK_TOKEN_FILE: "/does/not/exist" };
  const driver = spawn(process.execPath, [path], { env });
  const answers: any = {};
  createInterface({ input: driver.stdout }).on("line", (line) => {
    const answer = JSON.parse(line);
    answers[answer.n] = answer;
    if (Object.keys(answers).length === 1) driver.stdin.write('{"n":5,"call":"cancel","args":{"of":1}}\n');
    if (Object.keys(answers).length === 6) driver.stdin.end();
  });
  for (const line of ['{"n":1,"call":"turn","args":{"queue":"q"}}',
    '{"n":2,"call":"append","args":{"queue":"q","job":{"id":"a","payload":12345678901234567890}}}',
    '{"n":3,"call":"append","args":{"queue":"full","job":{"id":"a","payload":1}}}',
    '{"n":4,"call":"append","args":{"queue":"q","job":{}}}', '{"n":6,"call":"nonsense"}']) driver.stdin.write(line + "\n");
  const status = await new Promise((resolve) => driver.once("exit", resolve));
  assert.equal(status, 0);
  assert.match(answers[2].ok.text, /"payload":12345678901234567890/);
  const { detail: _, ...refused } = answers[3].error;
  assert.deepEqual(refused, { kind: "refused", status: 429, reason: "full", field: "", retry_after: 1.5, id: "a" });
  assert.deepEqual([1, 4, 5, 6].map((n) => answers[n].error?.kind), ["cancelled", "invalid", undefined, "invalid"]);
});
