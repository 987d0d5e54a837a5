import type { Penstock, CallOptions } from "./client.js";
import { checked, type Costs } from "./costs.js";
import { seconds, type Duration } from "./duration.js";
import { Misuse, PenstockError, Refused, retryAfterOf } from "./errors.js";
import { parse } from "./http.js";

/** TurnOptions are the options of a turn. */
export interface TurnOptions extends CallOptions {
  /** How long to wait for a turn, at most 60 s. Default: 30 s. */
  wait?: Duration | undefined;
  /** What the call will use of units that limits of the queue count, such as tokens. Default: the queue's estimate. */
  costs?: Costs | undefined;
  /**
   * How long the caller may take to report what the call used, from 1 s to 1 h. Until then the turn has a place in the
   * queue. Default: nothing is reported.
   */
  reportWithin?: Duration | undefined;
}

/** TurnAnswer is the server's answer that a turn has come. */
export interface TurnAnswer {
  waited_ms: number;
  id?: string;
  lease?: string;
  costs?: Costs;
}

/** Turn is a turn of a queue. Make the call when you get it. */
export class Turn {
  /** Seconds waited. */
  readonly waited: number;
  /** What was charged, by unit. Without reportWithin it is undefined. */
  readonly costs: Costs | undefined;

  constructor(private readonly client: Penstock, readonly queue: string, private readonly answer: TurnAnswer) {
    this.waited = answer.waited_ms / 1000;
    this.costs = answer.lease === undefined ? undefined : (answer.costs ?? {});
  }

  /** throttled stops the queue for everyone, because the provider asked for a break. Default: 1 s. */
  throttled(after: Duration = 1, reason?: string): Promise<{ until: string } | undefined> {
    return this.client.throttle(this.queue, after, { reason });
  }

  /**
   * reportActual reports what the call used, by unit, which replaces what was charged, and ends the turn. Units left out
   * keep their charge. Only the first report counts. It rejects with Misuse if the costs are impossible or the turn has
   * no reportWithin.
   */
  async reportActual(actual: Costs, options: CallOptions = {}): Promise<void> {
    if (this.costs === undefined) throw new Misuse("actual: the turn has no reportWithin", "actual");
    checked("actual", actual);
    const unknown = Object.keys(actual).find((unit) => !Object.hasOwn(this.costs!, unit));
    if (unknown !== undefined) {
      const units = Object.keys(this.costs).sort().join(", ") || "none";
      throw new Misuse(`actual.${unknown}: no limit of ${this.queue} counts this unit; it counts ${units}`, `actual.${unknown}`);
    }
    await this.end(actual, options);
  }

  private async end(actual: Costs, options: CallOptions): Promise<void> {
    const { id, lease } = this.answer;
    const json = { jobs: [{ id, lease, outcome: "delivered", actual }] };
    const path = `/v1/queues/${encodeURIComponent(this.queue)}/settle`;
    const answer = await this.client.ask("settle", "POST", path, { ...options, queue: this.queue, json });
    const [job] = parse<{ jobs: { stale?: true; reason?: string; status?: number }[] }>(answer).jobs;
    if (job?.reason !== undefined) throw new Refused(job.status ?? 500, { ...job });
    if (job?.stale) throw new PenstockError("the turn is over: what was charged stands");
  }
}

export interface PacedOptions extends Pick<TurnOptions, "traceparent" | "wait"> {
  /** Default: the global fetch. */
  fetch?: typeof fetch;
  /** What a request will use of units such as tokens, or a function that returns it. Default: the queue's estimate. */
  costs?: Costs | ((input: string | URL | Request, init?: RequestInit) => Costs | undefined) | undefined;
  /**
   * Returns what a request used, from a copy of the response, which it may read in any way. Without a result, what was
   * charged stands. It runs beside the program, which gets its response at once; failures are reported to the hook.
   */
  actual?: ((response: Response) => Costs | undefined | Promise<Costs | undefined>) | undefined;
  /** How long a response may take, with actual. Default: 10 min. */
  reportWithin?: Duration | undefined;
}

const maxThrottle = 86_400;

/** pacedFetch returns a function like fetch that waits for a turn of the queue before each request. */
export function pacedFetch(client: Penstock, queue: string, options: PacedOptions = {}): typeof fetch {
  const { actual, wait, traceparent } = options;
  const call = options.fetch ?? fetch;
  const reportWithin = actual ? (options.reportWithin ?? 600) : undefined;
  const paced = async (input: string | URL | Request, init?: RequestInit): Promise<Response> => {
    const signal = init?.signal ?? (input instanceof Request ? input.signal : undefined);
    const costs = typeof options.costs === "function" ? options.costs(input, init) : options.costs;
    const turn = await client.turn(queue, { wait, traceparent, costs, reportWithin, signal: signal ?? undefined });
    let response: Response;
    try {
      response = await call(input, init);
    } catch (error) {
      if (actual) void finish(client, turn, undefined);
      throw error;
    }
    if (actual) void meter(client, turn, actual, response.clone());
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

/** meter ends a turn with what its request used. */
async function meter(client: Penstock, turn: Turn, actual: NonNullable<PacedOptions["actual"]>, response: Response): Promise<void> {
  let used: Costs | undefined;
  try {
    used = await actual(response);
  } catch (error) {
    client.on({ kind: "settle_failed", queue: turn.queue, error });
  }
  await finish(client, turn, used);
}

/** finish ends a turn, with what its call used if that is known. A failure is a report to the hook. */
async function finish(client: Penstock, turn: Turn, actual: Costs | undefined): Promise<void> {
  try {
    await turn.reportActual(actual ?? {});
  } catch (error) {
    client.on({ kind: "settle_failed", queue: turn.queue, error });
    const refused = error instanceof Misuse || (error instanceof Refused && error.status < 500);
    if (actual !== undefined && refused) await finish(client, turn, undefined);
  }
}
