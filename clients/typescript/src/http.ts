import http from "node:http";
import https from "node:https";
import { routeTo, type Route } from "./agents.js";
import { PenstockError, refusalOf, Unreachable } from "./errors.js";
import type { Hook } from "./hook.js";
import { retry } from "./retry.js";
import { Tokens, type TokenSource } from "./token.js";
import { version } from "./version.js";

const maxAnswer = 64 << 20;

export interface Call {
  /** Name of the call, for reports. */
  call: string;
  method: string;
  path: string;
  headers?: Record<string, string>;
  body?: string;
  type?: string;
  idempotent: boolean;
  /** Seconds for the whole call, retries included. */
  timeout: number;
  signal?: AbortSignal | null | undefined;
  /** W3C trace context of the caller. */
  traceparent?: string | undefined;
  queue?: string | undefined;
  id?: string | undefined;
}

export interface Answer {
  status: number;
  headers: Record<string, string>;
  text: string;
}

export interface TransportOptions {
  url: string;
  token?: TokenSource | undefined;
  trace?: (() => Record<string, string>) | undefined;
  on: Hook;
}

/** Transport sends requests to one server. It never follows redirects, so the token goes nowhere else. */
export class Transport {
  readonly route: Route;
  private readonly tokens: Tokens;
  private readonly base: string;
  private readonly on: Hook;

  constructor(private readonly options: TransportOptions) {
    this.route = routeTo(options.url);
    this.base = this.route.origin.pathname.replace(/\/+$/, "");
    this.tokens = new Tokens(options.token);
    this.on = options.on;
  }

  /** url is the server's URL without a slash at its end. */
  get url(): string {
    return this.route.origin.origin + this.base;
  }

  /** call sends a request, repeats it by the retry policy and returns the whole answer. */
  call(c: Call): Promise<Answer> {
    return retry({ ...c, on: this.on }, async (signal) => {
      const answer = await this.open(c, signal);
      return { status: answer.statusCode!, headers: flat(answer.headers), text: await textOf(answer, signal) };
    });
  }

  /** open sends a request once and returns an answer with a status of 2xx, whose body is not yet read. */
  async open(c: Call, signal: AbortSignal): Promise<http.IncomingMessage> {
    let answer = await this.send(c, signal, false);
    if (answer.statusCode === 401 && this.tokens.changeable) {
      answer.resume();
      this.on({ kind: "token", call: c.call, queue: c.queue });
      answer = await this.send(c, signal, true);
    }
    const status = answer.statusCode!;
    if (status >= 200 && status < 300) return answer;
    let body = "";
    try {
      body = await textOf(answer, signal);
    } catch (error) {
      // The status of an answer without its body is still a refusal.
      if (signal.aborted) throw error;
    }
    throw refusalOf(status, flat(answer.headers), body);
  }

  private async send(c: Call, signal: AbortSignal, again: boolean): Promise<http.IncomingMessage> {
    const token = await this.tokens.get(again);
    const { origin, agent, secure, socketPath, forward } = this.route;
    const headers: Record<string, string | number> = {
      "User-Agent": `penstock-typescript/${version}`, Accept: "application/json",
      ...this.options.trace?.(), ...(c.traceparent && { traceparent: c.traceparent }), ...c.headers,
    };
    if (token !== undefined) headers["Authorization"] = `Bearer ${token}`;
    if (c.body !== undefined) {
      headers["Content-Type"] = c.type ?? "application/json";
      headers["Content-Length"] = Buffer.byteLength(c.body);
    }
    const path = this.base + c.path;
    const options: https.RequestOptions = { method: c.method, path, headers, agent };
    if (socketPath) {
      options.socketPath = socketPath;
      headers["Host"] = "localhost";
    } else if (forward) {
      Object.assign(options, { host: forward.host, port: forward.port, path: origin.origin + path });
      headers["Host"] = origin.host;
      if (forward.authorization) headers["Proxy-Authorization"] = forward.authorization;
    } else {
      options.host = origin.hostname.replace(/^\[|\]$/g, "");
      options.port = origin.port || (secure ? 443 : 80);
    }
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      const request = (secure ? https : http).request(options);
      // Without an error of its own: a socket that has its answer would emit it, and nothing listens there.
      const stop = () => {
        request.destroy();
        reject(signal.reason);
      };
      signal.addEventListener("abort", stop, { once: true });
      const over = () => signal.removeEventListener("abort", stop);
      request.once("response", (answer) => {
        answer.once("close", over);
        // Without a listener, an error between here and the first read would end the process.
        answer.on("error", () => {});
        resolve(answer);
      });
      // Stays in place: a connection that breaks after the response would otherwise throw.
      request.on("error", (error) => {
        over();
        reject(signal.aborted ? signal.reason : this.unreachable(error));
      });
      request.end(c.body);
    });
  }

  /** unreachable returns the error for a connection that failed. */
  unreachable(error: unknown): PenstockError {
    if (error instanceof PenstockError) return error;
    const { code, message } = error as NodeJS.ErrnoException;
    const where = this.route.socketPath ?? this.route.origin.origin;
    const hint = code === "ECONNREFUSED" || code === "ENOENT" ? ": is Penstock running there?" : "";
    return new Unreachable(`no answer from ${where} (${code ?? message})${hint}`, { cause: error });
  }

  close(): void {
    this.route.agent.destroy();
  }
}

/** chunksOf yields the text of a body as it arrives. A body that ends early is Unreachable. */
export async function* chunksOf(answer: http.IncomingMessage, signal: AbortSignal): AsyncGenerator<string> {
  answer.setEncoding("utf8");
  try {
    for await (const chunk of answer) yield chunk as string;
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    throw new Unreachable("the connection closed within the answer", { cause: error });
  }
  if (!answer.complete) throw new Unreachable("the connection closed within the answer");
}

async function textOf(answer: http.IncomingMessage, signal: AbortSignal): Promise<string> {
  let text = "";
  for await (const chunk of chunksOf(answer, signal)) {
    text += chunk;
    if (text.length > maxAnswer) throw new Unreachable("the answer is too large");
  }
  return text;
}

/** linesOf yields the complete lines of a body, without their ends. */
export async function* linesOf(answer: http.IncomingMessage, signal: AbortSignal): AsyncGenerator<string[]> {
  let rest = "";
  for await (const chunk of chunksOf(answer, signal)) {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop()!;
    if (rest.length > maxAnswer) throw new Unreachable("a line of the answer is too large");
    if (lines.length > 0) yield lines;
  }
  if (rest) yield [rest];
}

/** parse returns the JSON of an answer. */
export function parse<T>(answer: Answer): T {
  try {
    return JSON.parse(answer.text) as T;
  } catch (error) {
    throw new Unreachable("the answer is not JSON: is this Penstock?", { cause: error });
  }
}

function flat(headers: http.IncomingHttpHeaders): Record<string, string> {
  const out: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) out[name] = Array.isArray(value) ? value.join(", ") : (value ?? "");
  return out;
}
