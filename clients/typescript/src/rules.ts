import { segment, type CallOptions, type Penstock } from "./client.js";
import { checked, type Costs } from "./costs.js";
import { seconds, text, type Duration } from "./duration.js";
import { Refused } from "./errors.js";
import { parse } from "./http.js";
import type { Taken } from "./types.js";

export interface TakeOptions extends CallOptions {
  /** What the rule counts by, such as a recipient. */
  key?: string | undefined;
  cost?: number | undefined;
  /** The cost for a rule with a unit, in place of cost, such as { tokens: 1800 }. */
  costs?: Costs | undefined;
  /** How long to wait while the rule refuses, at most 60 s. Default: not at all. */
  wait?: Duration | undefined;
  /** For concurrency rules: the place to renew or to give back. */
  lease?: string | undefined;
  /** For refunds: the receipt of the take. */
  receipt?: string | undefined;
}

/** TakeResult is the answer of a rule. Times are in seconds. */
export interface TakeResult {
  allowed: boolean;
  limit: number;
  remaining: number;
  /** When the same cost would be allowed; 0 if it would be now. */
  retryAfter: number;
  /** When all counts are forgotten. */
  resetAfter: number;
  receipt?: string;
  lease?: string;
  /** For a rule with a unit: identifies the take for correct, within 15 minutes. */
  take?: string;
  /** The header fields RateLimit and RateLimit-Policy, to pass on. */
  headers: { "RateLimit"?: string; "RateLimit-Policy"?: string };
  /** The whole answer. */
  answer: Partial<Taken> & Record<string, unknown>;
}

export const take = (client: Penstock, rule: string, options: TakeOptions) => ask(client, "take", rule, options);
export const peek = (client: Penstock, rule: string, options: TakeOptions) => ask(client, "peek", rule, options);
export const refund = (client: Penstock, rule: string, options: TakeOptions) => ask(client, "refund", rule, options);

/** correct may be repeated: only the first correction counts. */
export async function correct(
  client: Penstock, rule: string, take: string, actual: Costs, options: CallOptions & { key?: string | undefined },
): Promise<TakeResult> {
  const json = { key: options.key, take, actual: checked("actual", actual) };
  const answer = await client.ask("correct", "POST", `/v1/rules/${segment(rule, "rule")}/correct`, { ...options, json });
  return result(parse(answer), answer.headers);
}

async function ask(client: Penstock, op: "take" | "peek" | "refund", rule: string, options: TakeOptions): Promise<TakeResult> {
  const { key, cost, lease, receipt } = options;
  const costs = options.costs && checked("costs", options.costs);
  const wait = options.wait === undefined ? 0 : seconds(options.wait, "wait");
  const json = { key, cost, costs, lease, receipt, ...(wait > 0 && { wait: text(wait) }) };
  try {
    const answer = await client.ask(op, "POST", `/v1/rules/${segment(rule, "rule")}/${op}`, {
      ...options, timeout: options.timeout ?? wait + client.timeout, json, idempotent: op === "peek",
    });
    return result(parse(answer), answer.headers);
  } catch (error) {
    if (error instanceof Refused && error.reason === "limit_reached") return result(error.problem, error.headers, error);
    throw error;
  }
}

function result(answer: TakeResult["answer"], headers: Record<string, string>, refused?: Refused): TakeResult {
  const { limit = 0, remaining = 0, receipt, lease, take } = answer;
  const [limits, policy] = [headers["ratelimit"], headers["ratelimit-policy"]];
  return {
    allowed: refused ? false : answer.allowed !== false, limit, remaining,
    retryAfter: refused?.retryAfter ?? (answer.retry_after_ms ?? 0) / 1000, resetAfter: (answer.reset_after_ms ?? 0) / 1000,
    ...(receipt && { receipt }), ...(lease && { lease }), ...(take && { take }), answer,
    headers: { ...(limits && { RateLimit: limits }), ...(policy && { "RateLimit-Policy": policy }) },
  };
}
