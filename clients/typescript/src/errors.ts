import type { Problem, Reason } from "./types.js";

/** PenstockError is the base of all errors of this package. */
export class PenstockError extends Error {
  override name = "PenstockError";
}

/** Refused is a refusal by the server, or by a proxy before it. */
export class Refused extends PenstockError {
  override name = "Refused";
  /** HTTP status; in a stream, the status of the job's line. */
  readonly status: number;
  /** Reason for programs, as in the API. A refusal without a reason, such as a proxy's, has http_error. */
  readonly reason: Reason | "http_error" | (string & {});
  readonly detail: string;
  /** The invalid field, or "". */
  readonly field: string;
  /** Id of the job, or "". */
  readonly id: string;
  /** Seconds to wait before a retry; 0 if the server names none. */
  readonly retryAfter: number;
  /** The whole refusal, with fields that this version does not know. */
  readonly problem: Partial<Problem> & Record<string, unknown>;
  /** Header fields of the answer, in lower case. */
  readonly headers: Record<string, string>;

  constructor(status: number, problem: Record<string, unknown>, retryAfter = 0, headers: Record<string, string> = {}) {
    const text = (name: string) => (typeof problem[name] === "string" ? (problem[name] as string) : "");
    const reason = text("reason") || "http_error";
    const field = text("field");
    const detail = text("detail") || text("title") || "the request was refused";
    super(`${field ? `${field}: ` : ""}${detail} (${reason}, HTTP ${status})`);
    this.status = status;
    this.reason = reason;
    this.detail = detail;
    this.field = field;
    this.id = text("id");
    this.retryAfter = retryAfter;
    this.problem = problem as Refused["problem"];
    this.headers = headers;
  }
}

/** Unreachable means that no answer came, or only a part. The request may have been executed. */
export class Unreachable extends PenstockError {
  override name = "Unreachable";
}

/** TimedOut means that no answer came within the call's timeout. The request may have been executed. */
export class TimedOut extends PenstockError {
  override name = "TimedOut";
}

/** Cancelled means that the caller's AbortSignal ended the call. Its name is AbortError, as elsewhere. */
export class Cancelled extends PenstockError {
  override name = "AbortError";
}

/** LeaseLost is the reason of a job's signal when another worker may have the job. */
export class LeaseLost extends PenstockError {
  override name = "LeaseLost";
}

/** Misuse is a fault of the calling program, found before a request is sent or while a handler runs. */
export class Misuse extends PenstockError {
  override name = "Misuse";
  constructor(message: string, readonly field = "", options?: ErrorOptions) {
    super(message, options);
  }
}

/**
 * retryAfterOf returns the seconds to wait before a retry: the body's milliseconds, else the header Retry-After. A date is
 * compared with the header Date of the same answer, because the clocks may differ.
 */
export function retryAfterOf(milliseconds: unknown, header?: string | null, sent?: string | null): number {
  if (typeof milliseconds === "number" && milliseconds > 0) return milliseconds / 1000;
  const value = header?.trim() ?? "";
  if (/^\d{1,9}$/.test(value)) return Number(value);
  const date = /[a-z]/i.test(value) ? Date.parse(value) : NaN;
  return Number.isNaN(date) ? 0 : Math.max(0, (date - (Date.parse(sent ?? "") || Date.now())) / 1000);
}

/** refusalOf returns the error for an answer with a status other than 2xx. */
export function refusalOf(status: number, headers: Record<string, string>, body: string): Refused {
  let problem: Record<string, unknown> = {};
  try {
    const value: unknown = JSON.parse(body);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) problem = value as Record<string, unknown>;
  } catch {
    // A proxy answers with HTML or text.
  }
  if (typeof problem["reason"] !== "string") problem = { detail: body.trim().slice(0, 200), ...problem };
  return new Refused(status, problem, retryAfterOf(problem["retry_after_ms"], headers["retry-after"], headers["date"]), headers);
}
