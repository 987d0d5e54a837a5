import { text, type Duration } from "./duration.js";
import { refusalOf, type Refused } from "./errors.js";

/** ProxyOptions are the options of a call through the proxy. */
export interface ProxyOptions {
  lane?: string | undefined;
  cost?: number | undefined;
  /** What the call will use of other units, such as tokens. Default: the queue's estimate. */
  costs?: Record<string, number> | undefined;
  priority?: number | undefined;
  /** Maximum wait for a turn. Default: 30 s. */
  wait?: Duration | undefined;
  /** "throttled" waits for another turn when the receiver answers that there are too many requests. */
  retry?: "throttled" | undefined;
}

/** proxyHeaders returns the header fields that give the options to the proxy. The server checks their values. */
export function proxyHeaders(options: ProxyOptions): Record<string, string> {
  const { lane, cost, costs, priority, wait, retry } = options;
  const headers: Record<string, string> = {};
  // Node.js sends each character of a field as one byte, and the server expects UTF-8.
  if (lane !== undefined) headers["Penstock-Lane"] = Buffer.from(lane, "utf8").toString("latin1");
  if (cost !== undefined) headers["Penstock-Cost"] = String(cost);
  if (costs !== undefined) headers["Penstock-Costs"] = Object.entries(costs).map(([unit, n]) => `${unit}=${n}`).join(", ");
  if (priority !== undefined) headers["Penstock-Priority"] = String(priority);
  if (wait !== undefined) headers["Penstock-Wait"] = text(wait, "wait");
  if (retry !== undefined) headers["Penstock-Retry"] = retry;
  return headers;
}

type Fields = Record<string, string>;

/** Found has the fields of responses and of the errors of HTTP libraries. */
interface Found {
  status?: unknown;
  headers?: unknown;
  response?: unknown;
  clone?: () => Response;
  bodyUsed?: boolean;
  error?: unknown;
  data?: unknown;
}

/**
 * problemOf returns the refusal if Penstock refused a call through the proxy, such as one with the reason no_turn. For
 * an answer of the receiver it returns undefined, whatever the status. It takes a Response whose body is unread, and
 * leaves it unread. It also takes an error with status, headers and the parsed body, as those of the SDKs of OpenAI and
 * Anthropic, or an error with a response, as those of axios.
 */
export async function problemOf(answer: unknown): Promise<Refused | undefined> {
  if (typeof answer !== "object" || answer === null) return undefined;
  const found = answer as Found;
  if (typeof found.response === "object" && found.response !== null) return problemOf(found.response);
  const headers = fieldsOf(found.headers);
  if (typeof found.status !== "number" || passedOn(headers)) return undefined;
  const standard = /^application\/problem\+json\s*(;|$)/i.test(headers["content-type"] ?? "");
  if (typeof found.clone !== "function") return refusalIn(found.status, headers, standard, found.error ?? found.data);
  if (!standard || found.bodyUsed) return undefined;
  return refusalIn(found.status, headers, standard, parsed(await found.clone().text()));
}

/** refusalIn returns the refusal in a parsed body. Some SDKs keep only the member error of a body. */
function refusalIn(status: number, headers: Fields, standard: boolean, body: unknown): Refused | undefined {
  if (typeof body !== "object" || body === null) return undefined;
  let problem = body as Record<string, unknown>;
  const { error } = problem;
  const nested = typeof error === "object" && error !== null ? (error as typeof problem) : problem;
  const marked = nested["type"] === "penstock" && typeof nested["code"] === "string";
  if (!marked && !standard) return undefined;
  if (typeof problem["reason"] !== "string") {
    if (!marked) return undefined;
    const milliseconds = Number(headers["retry-after-ms"]) || undefined;
    problem = { reason: nested["code"], detail: nested["message"], retry_after_ms: milliseconds };
  }
  return refusalOf(status, headers, JSON.stringify(problem));
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}

/** fieldsOf returns header fields by their names in lower case. */
function fieldsOf(headers: unknown): Fields {
  const out: Fields = {};
  if (typeof headers !== "object" || headers === null) return out;
  const iterable = typeof (headers as Iterable<unknown>)[Symbol.iterator] === "function";
  for (const [name, value] of iterable ? (headers as Iterable<[string, unknown]>) : Object.entries(headers)) {
    if (value !== undefined && value !== null) out[name.toLowerCase()] = String(value); // of a list, with commas
  }
  return out;
}

/**
 * passedOn reports whether an answer came from the receiver. The proxy adds its metric to Server-Timing then, and never
 * to its own refusals.
 */
function passedOn(headers: Fields): boolean {
  return (headers["server-timing"] ?? "").split(",").some((metric) => metric.split(";")[0]!.trim() === "penstock");
}
