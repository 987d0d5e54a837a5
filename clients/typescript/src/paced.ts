import type { Penstock, CallOptions } from "./client.js";
import { seconds, type Duration } from "./duration.js";
import { retryAfterOf } from "./errors.js";

/** Turn is a turn of a queue. Make the call when you get it. */
export class Turn {
  constructor(private readonly client: Penstock, readonly queue: string, /** Seconds waited. */ readonly waited: number) {}

  /** throttled stops the queue for everyone, because the provider asked for a break. Default: 1 s. */
  throttled(after: Duration = 1, reason?: string): Promise<{ until: string } | undefined> {
    return this.client.throttle(this.queue, after, { reason });
  }
}

export interface PacedOptions extends Pick<CallOptions, "traceparent"> {
  /** How long to wait for a turn, at most 60 s. Default: 30 s. */
  wait?: Duration;
  /** Default: the global fetch. */
  fetch?: typeof fetch;
}

const maxThrottle = 86_400;

/** pacedFetch returns a function like fetch that waits for a turn of the queue before each request. */
export function pacedFetch(client: Penstock, queue: string, options: PacedOptions = {}): typeof fetch {
  const call = options.fetch ?? fetch;
  const paced = async (input: string | URL | Request, init?: RequestInit): Promise<Response> => {
    const signal = init?.signal ?? (input instanceof Request ? input.signal : undefined);
    const turn = await client.turn(queue, { ...options, signal: signal ?? undefined });
    const response = await call(input, init);
    const { status, headers } = response;
    // A 503 without a time may concern this request only; a 429 is about the rate.
    const after = status !== 429 && status !== 503 ? 0
      : retryAfterOf(undefined, headers.get("retry-after"), headers.get("date")) || (status === 429 ? 1 : 0);
    if (after > 0) {
      try {
        await turn.throttled(Math.min(after, maxThrottle), `HTTP ${status}`);
        client.on({ kind: "throttled", queue, pause: seconds(after) });
      } catch (error) {
        client.on({ kind: "throttle_failed", queue, error });
      }
    }
    return response;
  };
  return paced as typeof fetch;
}
