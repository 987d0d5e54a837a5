import type { Penstock } from "./client.js";
import { seconds, type Duration } from "./duration.js";
import { Misuse } from "./errors.js";
import type { TakeResult } from "./rules.js";

export interface LimitOptions<Request> {
  rule: string;
  /** Returns what the rule counts by. Requests for which it returns undefined are not limited. */
  key?: (request: Request) => string | undefined | Promise<string | undefined>;
  cost?: (request: Request) => number;
  /** How long a request may wait until the rule allows it. Default: not at all. */
  wait?: Duration;
  /** What happens to requests when the rule cannot be asked. Default: allow. */
  onError?: "allow" | "refuse";
  /** Time to the rule's answer, beside wait. Default: 2 s. */
  timeout?: Duration;
}

interface Verdict {
  headers: Record<string, string>;
  /** The refusal: a status and a body of application/problem+json. */
  refusal?: { status: number; body: string };
  /** The client has left. */
  gone?: true;
}

/** URL below which each reason has a page; a problem's type is this URL and the reason, as in answers of the server. */
const problems = "https://penstock.github.io/penstock/problems/";

async function decide<R>(client: Penstock, options: LimitOptions<R>, request: R, response: RawResponse): Promise<Verdict> {
  const control = new AbortController();
  const { signal } = control;
  response.once("close", () => control.abort());
  const { rule } = options;
  let taken: TakeResult;
  let key: string | undefined;
  try {
    key = await options.key?.(request);
    if (options.key && key === undefined) return { headers: {} };
    const { wait = 0 } = options;
    const timeout = seconds(wait, "wait") + seconds(options.timeout ?? 2, "timeout");
    taken = await client.take(rule, { key, cost: options.cost?.(request), wait, signal, timeout });
  } catch (error) {
    if (signal.aborted) return { headers: {}, gone: true };
    client.on({ kind: "rule_failed", rule, error });
    if (options.onError !== "refuse") return { headers: {} };
    return { headers: { "Retry-After": "1" }, refusal: problem(503, "unavailable", rule, { retry_after_ms: 1000 }) };
  }
  const headers: Record<string, string> = { ...taken.headers };
  if (!taken.allowed) {
    headers["Retry-After"] = String(Math.max(1, Math.ceil(taken.retryAfter)));
    const { limit, remaining } = taken;
    const retry_after_ms = Math.max(1, Math.round(taken.retryAfter * 1000));
    return { headers, refusal: problem(429, "limit_reached", rule, { limit, remaining, retry_after_ms }) };
  }
  const { lease } = taken;
  const free = () => {
    client.refund(rule, { key, lease }).catch((error: unknown) => client.on({ kind: "rule_failed", call: "refund", rule, error }));
  };
  if (lease && signal.aborted) free();
  else if (lease) signal.addEventListener("abort", free, { once: true }); // when the response is done
  return signal.aborted ? { headers, gone: true } : { headers };
}

function problem(status: number, reason: string, rule: string, more: Record<string, number>): NonNullable<Verdict["refusal"]> {
  const title = status === 429 ? "Limit reached" : "Unavailable";
  const detail = status === 429 ? "too many requests; retry after the time in Retry-After" : "the limit cannot be checked now; retry";
  return { status, body: JSON.stringify({ type: problems + reason, title, status, detail, reason, rule, ...more }) };
}

function checked<R>(options: LimitOptions<R>): LimitOptions<R> {
  if (!options?.rule) throw new Misuse("rule: must be the name of a rule", "rule");
  return options;
}

/** RawResponse is the part of node:http's ServerResponse that Express and Fastify share. */
interface RawResponse {
  setHeader(name: string, value: string): unknown;
  once(event: "close", listener: () => void): unknown;
  end(body: string): unknown;
  statusCode: number;
}

/** expressLimit returns middleware for Express, Connect and node:http that lets a rule decide about each request. */
export function expressLimit<Request = any>(client: Penstock, options: LimitOptions<Request>) {
  checked(options);
  return (request: Request, response: RawResponse, next: (error?: unknown) => void): void => {
    decide(client, options, request, response).then((verdict) => {
      if (verdict.gone) return;
      for (const [name, value] of Object.entries(verdict.headers)) response.setHeader(name, value);
      if (!verdict.refusal) return next();
      response.statusCode = verdict.refusal.status;
      response.setHeader("Content-Type", "application/problem+json");
      response.end(verdict.refusal.body);
    }).catch(next);
  };
}

interface FastifyReply {
  raw: RawResponse;
  code(status: number): FastifyReply;
  header(name: string, value: string): FastifyReply;
  send(body: string): unknown;
}

/** fastifyLimit returns an onRequest hook for Fastify that lets a rule decide about each request. */
export function fastifyLimit<Request = any>(client: Penstock, options: LimitOptions<Request>) {
  checked(options);
  return async (request: Request, reply: FastifyReply): Promise<unknown> => {
    const verdict = await decide(client, options, request, reply.raw);
    for (const [name, value] of Object.entries(verdict.headers)) reply.header(name, value);
    if (!verdict.refusal) return undefined;
    return reply.code(verdict.refusal.status).header("Content-Type", "application/problem+json").send(verdict.refusal.body);
  };
}
