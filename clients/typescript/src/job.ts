import { randomUUID } from "node:crypto";
import { Misuse } from "./errors.js";
import type { Accepted } from "./types.js";

/** Job is a job to append, with exactly one of payload, payloadJson and payloadBytes. */
export interface Job {
  /** Any JSON value. */
  payload?: unknown;
  /** JSON text that is passed on unchanged, such as text with numbers that JavaScript cannot hold. */
  payloadJson?: string;
  /** Data that is not JSON, with its contentType. */
  payloadBytes?: Uint8Array;
  contentType?: string;
  /** Identifies the job in its queue. Default: a random UUID. */
  id?: string;
  lane?: string;
  cost?: number;
  /** What the job uses of units that limits of the queue count, such as tokens. Default: the queue's estimate. */
  costs?: Record<string, number>;
  priority?: number;
  notBefore?: Date | string;
  expiresAt?: Date | string;
  batch?: string;
  overflow?: "reject" | "defer";
  /** Delivered with the payload. The trace context of a job is its header traceparent. */
  headers?: Record<string, string>;
}

/** Appended is the answer about an accepted job. */
export type Appended = Accepted & {
  /** The queue knew the job before. */
  duplicate: boolean;
};

/** encode returns a job's id and its JSON text. With oneLine the text has no line breaks. */
export function encode(job: Job, oneLine = false): { id: string; text: string } {
  if (typeof job !== "object" || job === null) throw new Misuse("job: must be an object with a payload", "job");
  const given = [job.payload, job.payloadJson, job.payloadBytes].filter((one) => one !== undefined);
  if (given.length !== 1) {
    throw new Misuse("job: must have exactly one of payload, payloadJson and payloadBytes", "payload");
  }
  const id = job.id ?? randomUUID();
  const fields = JSON.stringify({
    id, lane: job.lane, cost: job.cost, costs: job.costs, priority: job.priority,
    not_before: instant(job.notBefore, "not_before"),
    expires_at: instant(job.expiresAt, "expires_at"), batch: job.batch, overflow: job.overflow, headers: job.headers,
    content_type: job.contentType,
    payload_base64: job.payloadBytes && Buffer.from(job.payloadBytes.buffer, job.payloadBytes.byteOffset,
      job.payloadBytes.byteLength).toString("base64"),
  });
  if (job.payloadBytes) return { id, text: fields };
  return { id, text: `${fields.slice(0, -1)},"payload":${payloadText(job, oneLine)}}` };
}

function payloadText(job: Job, oneLine: boolean): string {
  let text: string | undefined;
  try {
    if (job.payloadJson === undefined) text = JSON.stringify(job.payload);
    else JSON.parse((text = job.payloadJson)); // otherwise the text could add fields to the job
  } catch (error) {
    throw new Misuse(`payload: is not JSON: ${(error as Error).message}`, "payload", { cause: error });
  }
  if (text === undefined) throw new Misuse("payload: is not JSON: functions and symbols have no JSON form", "payload");
  // In JSON, a raw line break is only white space between values.
  return oneLine && job.payloadJson !== undefined ? text.replace(/[\r\n]/g, " ") : text;
}

function instant(value: Date | string | undefined, field: string): string | undefined {
  if (!(value instanceof Date)) return value;
  if (Number.isNaN(value.getTime())) throw new Misuse(`${field}: is not a valid date`, field);
  return value.toISOString();
}
