import { Cancelled, Refused, TimedOut, Unreachable } from "./errors.js";
import { sleep } from "./duration.js";
import type { Hook } from "./hook.js";

/** maxTries is the maximum number of attempts of a call. */
export const maxTries = 5;

const busy = new Set(["crowded", "over_share", "app_limit"]);

/** mayRetry reports whether repeating an idempotent call may help. */
export function mayRetry(error: unknown): boolean {
  if (error instanceof Unreachable) return true;
  if (!(error instanceof Refused)) return false;
  return [502, 503, 504].includes(error.status) || (error.status === 429 && busy.has(error.reason));
}

/** pause returns the seconds before the next attempt, after a number of failed ones: jittered, at least retryAfter. */
export function pause(failed: number, retryAfter = 0, random: () => number = Math.random): number {
  return Math.max(retryAfter, random() * Math.min(10, 0.1 * 2 ** failed));
}

export interface RetryOptions {
  idempotent: boolean;
  timeout: number;
  signal?: AbortSignal | null | undefined;
  call: string;
  queue?: string | undefined;
  id?: string | undefined;
  on: Hook;
}

/**
 * retry runs attempt until it succeeds, its error is final, or the next attempt would begin after the timeout. The
 * signal of an attempt aborts when the caller's signal does or the time is up.
 */
export async function retry<T>(o: RetryOptions, attempt: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const end = performance.now() + o.timeout * 1000;
  const limit = new Limit(o.signal, o.timeout, () => new TimedOut(`${o.call}: no answer within ${o.timeout} s`));
  try {
    for (let failed = 1; ; failed++) {
      try {
        return await attempt(limit.signal);
      } catch (error) {
        if (!o.idempotent || failed >= maxTries || !mayRetry(error)) throw error;
        const wait = pause(failed, error instanceof Refused ? error.retryAfter : 0);
        if (performance.now() + wait * 1000 >= end) throw error;
        o.on({ kind: "retry", call: o.call, queue: o.queue, id: o.id, error, attempt: failed, pause: wait });
        await sleep(wait, limit.signal);
      }
    }
  } finally {
    limit.end();
  }
}

/** Limit has a signal that aborts with the caller's signal, or when a time is over. */
export class Limit {
  private readonly control = new AbortController();
  private readonly timer: NodeJS.Timeout;
  readonly signal: AbortSignal = this.control.signal;

  constructor(private readonly parent: AbortSignal | null | undefined, time: number, late: () => Error) {
    if (parent?.aborted) throw cancelled(parent);
    this.timer = setTimeout(() => this.control.abort(late()), Math.min(time * 1000, 2 ** 31 - 1));
    parent?.addEventListener("abort", this.stop, { once: true });
  }

  private readonly stop = () => this.control.abort(cancelled(this.parent!));

  /** refresh begins the time again. */
  refresh(): void {
    this.timer.refresh();
  }

  /** end ends what still uses the signal. */
  end(): void {
    clearTimeout(this.timer);
    this.parent?.removeEventListener("abort", this.stop);
    this.control.abort(new Cancelled("the call is over"));
  }
}

/** cancelled returns the error of a call that the caller's signal ended. */
export function cancelled(signal: AbortSignal): Cancelled {
  return new Cancelled("the call was cancelled", { cause: signal.reason });
}
