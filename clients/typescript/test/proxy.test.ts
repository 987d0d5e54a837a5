import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import http from "node:http";
import https from "node:https";
import net, { type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { Penstock, Unreachable } from "penstock";
import { proxyFor } from "../src/agents.js";

async function listen(t: TestContext, server: http.Server | https.Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

/** environment sets variables until the test ends. */
function environment(t: TestContext, values: Record<string, string>): void {
  const before = { ...process.env };
  Object.assign(process.env, values);
  t.after(() => (process.env = before));
}

test("the environment decides about the proxy", () => {
  const via = (url: string, env: NodeJS.ProcessEnv) => proxyFor(new URL(url), env)?.host;
  const env = { HTTP_PROXY: "http://p:3128", HTTPS_PROXY: "s:3128", NO_PROXY: "example.com, .internal,other:81" };
  assert.equal(via("http://a.test", env), "p:3128");
  assert.equal(via("https://a.test", env), "s:3128");
  for (const url of ["http://example.com", "http://a.example.com", "http://x.internal", "http://other:81", "http://127.0.0.1:8080",
    "http://localhost", "http://[::1]:80"]) assert.equal(via(url, env), undefined, url);
  assert.equal(via("http://other:82", env), "p:3128");
  assert.equal(via("http://notexample.com", env), "p:3128");
  assert.equal(via("http://a.test", { ...env, REQUEST_METHOD: "GET" }), undefined);
  assert.equal(via("http://a.test", { ...env, NO_PROXY: "*" }), undefined);
  assert.throws(() => via("http://a.test", { http_proxy: "socks5://p" }));
});

test("plain HTTP goes to the proxy in absolute form", async (t) => {
  const port = await listen(t, http.createServer((request, response) => {
    response.end(JSON.stringify({ url: request.url, host: request.headers.host, user: request.headers["proxy-authorization"] }));
  }));
  environment(t, { http_proxy: `http://u:p%40@127.0.0.1:${port}`, no_proxy: "" });
  const client = new Penstock({ url: "http://penstock.test:8080", token: "t" });
  t.after(() => client.close());
  assert.deepEqual(await client.get("q", "a") as unknown, {
    url: "http://penstock.test:8080/v1/queues/q/jobs/a", host: "penstock.test:8080", user: "Basic dTpwQA==",
  });
});

test("TLS goes through a tunnel, and the proxy does not see the token", async (t) => {
  const dir = mkdtempSync(join(tmpdir(), "penstock-"));
  t.after(() => rmSync(dir, { recursive: true }));
  const [key, cert] = [join(dir, "key"), join(dir, "cert")];
  try {
    execFileSync("openssl", ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
      "/CN=penstock.test", "-addext", "subjectAltName=DNS:penstock.test", "-keyout", key, "-out", cert], { stdio: "ignore" });
  } catch {
    return t.skip("needs openssl");
  }
  const origin = await listen(t, https.createServer({ key: readFileSync(key), cert: readFileSync(cert) }, (request, response) => {
    response.end(JSON.stringify({ token: request.headers.authorization }));
  }));
  const connects: string[] = [];
  const proxy = http.createServer();
  proxy.on("connect", (request, socket) => {
    connects.push(`${request.url} ${request.headers.authorization ?? ""}`);
    const up = net.connect(origin, "127.0.0.1", () => {
      socket.write("HTTP/1.1 200 OK\r\n\r\n");
      up.pipe(socket).pipe(up);
    });
    t.after(() => up.destroy());
    for (const one of [up, socket]) one.on("error", () => {});
  });
  const port = await listen(t, proxy);
  environment(t, { https_proxy: `http://127.0.0.1:${port}`, no_proxy: "", NODE_TLS_REJECT_UNAUTHORIZED: "0" });
  const client = new Penstock({ url: "https://penstock.test", token: "t" });
  t.after(() => client.close());
  assert.deepEqual(await client.get("q", "a") as unknown, { token: "Bearer t" });
  await client.get("q", "a");
  assert.deepEqual(connects, ["penstock.test:443 "]);
});

test("a proxy that refuses the tunnel makes the server unreachable", async (t) => {
  const proxy = http.createServer();
  proxy.on("connect", (_, socket) => socket.end("HTTP/1.1 407 No\r\n\r\n"));
  const port = await listen(t, proxy);
  environment(t, { https_proxy: `http://127.0.0.1:${port}`, no_proxy: "" });
  const client = new Penstock({ url: "https://penstock.test" });
  await assert.rejects(client.take("r"), (error) => error instanceof Unreachable && /407/.test(error.message));
});
