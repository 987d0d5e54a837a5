import { text, type Duration } from "./duration.js";

/** Settlement is how a job ends, as in the API. */
export interface Settlement {
  outcome: "delivered" | "retry" | "dead" | "released" | "held" | "throttled" | "down";
  after?: string | undefined;
  lane_only?: boolean | undefined;
  trouble?: boolean;
  reason?: string;
  /** What the job has used, by unit. */
  actual?: Record<string, number>;
}

/** Outcome is what a handler returns, or throws, to settle its job other than as delivered or failed. */
export class Outcome extends Error {
  override name = "Outcome";
  constructor(readonly settlement: Settlement) {
    super(settlement.reason || settlement.outcome);
  }
}

const time = (after?: Duration) => (after === undefined ? undefined : text(after, "after"));
const because = (reason?: string) => (reason ? { reason: clip(reason) } : {});

/** delivered settles the job as done. With after, no job leaves the queue for this time. */
export const delivered = (after?: Duration) =>
  new Outcome({ outcome: "delivered", after: time(after) });

/** retry tries the job again, after a time or as the queue's settings say. */
export const retry = (after?: Duration, reason?: string) =>
  new Outcome({ outcome: "retry", after: time(after), ...because(reason) });

/** dead makes the job a dead job, which only a person can replay. */
export const dead = (reason?: string) => new Outcome({ outcome: "dead", ...because(reason) });

/** throttled stops the queue, or with laneOnly the job's lane, because the receiver asked for a break. */
export const throttled = (after: Duration = 0, options: { laneOnly?: boolean; reason?: string } = {}) =>
  new Outcome({ outcome: "throttled", after: time(after), lane_only: options.laneOnly, ...because(options.reason) });

/** released gives back a job whose work has not started. It keeps its turn, and no attempt is counted. */
export const released = () => new Outcome({ outcome: "released" });

/** held says that the job may have been sent, and that a person must decide. */
export const held = (reason?: string) => new Outcome({ outcome: "held", ...because(reason) });

/** down says that the target is down. Several in a row open the queue's circuit. */
export const down = (reason?: string) => new Outcome({ outcome: "down", ...because(reason) });

/** clip shortens a reason to the 512 bytes that the API allows. */
export function clip(reason: string): string {
  const bytes = Buffer.from(reason);
  if (bytes.length <= 512) return bytes.toString();
  let end = 512;
  while ((bytes[end]! & 0xc0) === 0x80) end--; // not within a character
  return bytes.subarray(0, end).toString();
}
