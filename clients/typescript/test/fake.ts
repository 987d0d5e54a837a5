import http from "node:http";
import type { AddressInfo } from "node:net";
import { Penstock, type HookEvent, type PenstockOptions } from "penstock";
import type { TestContext } from "node:test";

export interface Request {
  method: string;
  path: string;
  headers: http.IncomingHttpHeaders;
  body: string;
  json: any;
  lines: any[];
  raw: http.IncomingMessage;
}

export type Answer = (request: Request, response: http.ServerResponse) => unknown;

export interface Fake {
  url: string;
  client: Penstock;
  seen: Request[];
  events: HookEvent[];
  port: number;
}

/** fake starts a server that answers with the given function, and a client of it. Both end with the test. */
export async function fake(t: TestContext, answer: Answer, options: PenstockOptions = {}): Promise<Fake> {
  const seen: Request[] = [];
  const server = http.createServer(async (raw, response) => {
    let body = "";
    for await (const chunk of raw.setEncoding("utf8")) body += chunk;
    const type = raw.headers["content-type"];
    const request: Request = {
      method: raw.method!, path: raw.url!, headers: raw.headers, body, raw,
      json: type === "application/json" && body ? JSON.parse(body) : undefined,
      lines: type === "application/x-ndjson" ? body.trim().split("\n").map((line) => JSON.parse(line)) : [],
    };
    seen.push(request);
    await answer(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}`;
  const events: HookEvent[] = [];
  const client = new Penstock({ url, token: "t", on: (event) => events.push(event), ...options });
  t.after(() => {
    client.close();
    server.closeAllConnections();
    server.close();
  });
  return { url, client, seen, events, port };
}

/** send answers with JSON. */
export function send(response: http.ServerResponse, status: number, body: unknown, headers: http.OutgoingHttpHeaders = {}): void {
  response.writeHead(status, { "Content-Type": status < 300 ? "application/json" : "application/problem+json", ...headers });
  response.end(JSON.stringify(body));
}

/** until returns when a condition holds. */
export async function until(condition: () => boolean, what = "the condition"): Promise<void> {
  const end = Date.now() + 10_000;
  while (!condition()) {
    if (Date.now() > end) throw new Error(`${what} did not hold within 10 s`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}
