import { checked, type Costs } from "./costs.js";
import { seconds, sleep, text, type Duration } from "./duration.js";
import { Misuse, Refused, TimedOut } from "./errors.js";
import { Stream, type StreamOptions, type StreamResult } from "./append.js";
import { events, type EventOptions, type StreamEvent } from "./events.js";
import { guard, type Hook } from "./hook.js";
import { parse, Transport, type Answer, type Call } from "./http.js";
import { encode, type Appended, type Job } from "./job.js";
import { pacedFetch, Turn, type PacedOptions, type TurnAnswer, type TurnOptions } from "./paced.js";
import { cancelled } from "./retry.js";
import { correct, peek, refund, take, type TakeOptions, type TakeResult } from "./rules.js";
import { tokenFromEnvironment, type TokenSource } from "./token.js";
import type { Cancelled as CancelledJob, ChangedQueue, JobInfo, Jobs, Queue, QueueForecast, Spec, State } from "./types.js";
import { Worker, type Handler, type WorkerOptions } from "./worker.js";

export interface PenstockOptions {
  /** Address of the server. Default: PENSTOCK_URL, then http://127.0.0.1:8080. A Unix socket is unix:///path/to.sock. */
  url?: string;
  /** Default: PENSTOCK_TOKEN, then the file named by PENSTOCK_TOKEN_FILE, then no token. */
  token?: TokenSource | undefined;
  /** Time to the answer of an ordinary call, retries included. Default: 10 s. Calls that wait get it in addition. */
  timeout?: Duration;
  /** Returns headers with the caller's trace context, such as traceparent. It is called for every request. */
  trace?: () => Record<string, string>;
  /** Gets reports about retries, lost leases and other events. The package logs nothing. */
  on?: Hook;
}

export interface CallOptions {
  timeout?: Duration | undefined;
  signal?: AbortSignal | undefined;
  traceparent?: string | undefined;
}

export interface ListOptions extends CallOptions {
  state: Exclude<State, "deferred">;
  lane?: string;
  reason?: string;
  before?: Date | string;
  since?: Date | string;
  /** Jobs per page, at most 500. */
  limit?: number;
  payload?: boolean;
}

type AskOptions = CallOptions & Omit<Partial<Call>, keyof CallOptions> & { json?: unknown };

const defaultTimeout = 10;
const ended = new Set<string>(["delivered", "dead", "cancelled", "expired", "held"]);

/** Penstock is a client of one server. All of its methods can be used at the same time. */
export class Penstock {
  readonly transport: Transport;
  readonly on: Hook;
  readonly timeout: number;

  constructor(options: PenstockOptions = {}) {
    this.on = guard(options.on);
    this.timeout = seconds(options.timeout ?? defaultTimeout, "timeout");
    this.transport = new Transport({
      url: options.url ?? (process.env["PENSTOCK_URL"] || "http://127.0.0.1:8080"),
      token: options.token ?? tokenFromEnvironment(), trace: options.trace, on: this.on,
    });
  }

  /** append adds a job to a queue. It is repeated safely, because each job has an id. */
  async append(queue: string, job: Job, options: CallOptions = {}): Promise<Appended> {
    const { id, text: body } = encode(job);
    const answer = await this.ask("append", "POST", queuePath(queue, "jobs"), { ...options, queue, id, body });
    return { ...parse<Appended>(answer), duplicate: answer.status === 200 };
  }

  /**
   * appendMany appends jobs, one request after another, and returns their results in the order of the jobs. The refusal
   * of a request is thrown.
   */
  async appendMany(queue: string, jobs: Iterable<Job>, options: StreamOptions = {}): Promise<StreamResult[]> {
    const results: StreamResult[] = [];
    const stream = this.stream(queue, jobs, options, true);
    for await (const result of stream) results[result.index] = result;
    return results;
  }

  /**
   * appendStream appends jobs from any source and yields one result per job, in the order of the answers. It takes no
   * further job from the source while `inFlight` jobs have no result that the caller has read.
   */
  appendStream(
    queue: string, jobs: Iterable<Job> | AsyncIterable<Job>, options: StreamOptions = {},
  ): AsyncGenerator<StreamResult, void, undefined> {
    return this.stream(queue, jobs, options, false);
  }

  private stream(
    queue: string, jobs: Iterable<Job> | AsyncIterable<Job>, options: StreamOptions, listed: boolean,
  ): AsyncGenerator<StreamResult, void, undefined> {
    queuePath(queue);
    return new Stream(this.transport, queue, jobs, { timeout: this.timeout, ...options }, this.on, listed).run();
  }

  /** get returns a job. */
  async get(queue: string, id: string, options: CallOptions = {}): Promise<JobInfo> {
    return parse(await this.ask("get", "GET", jobPath(queue, id), { ...options, queue, id }));
  }

  /** list yields the jobs of a queue in one state, page by page. */
  async *list(queue: string, options: ListOptions): AsyncGenerator<JobInfo, void, undefined> {
    const { timeout, signal, traceparent, ...filter } = options;
    for (let after: string | undefined; ;) {
      const path = queuePath(queue, "jobs") + query({ ...filter, after });
      const page: Jobs = parse(await this.ask("list", "GET", path, { timeout, signal, traceparent, queue }));
      yield* page.jobs;
      if (!page.next) return;
      after = page.next;
    }
  }

  /** cancel cancels a job that has not left its queue. */
  async cancel(queue: string, id: string, options: CallOptions = {}): Promise<CancelledJob> {
    return parse(await this.ask("cancel", "POST", `${jobPath(queue, id)}/cancel`, { ...options, queue, id }));
  }

  /**
   * wait returns a job as soon as it has ended or is held. It asks at growing intervals, or shortly after the job's eta,
   * but at least every 5 s, because the clock of a test server may jump. Default timeout: none.
   */
  async wait(queue: string, id: string, options: CallOptions = {}): Promise<JobInfo> {
    const end = performance.now() + (options.timeout === undefined ? Infinity : seconds(options.timeout, "timeout") * 1000);
    for (let rest = 0.1; ; rest = Math.min(5, rest * 1.6)) {
      const left = (end - performance.now()) / 1000;
      if (left <= 0) throw new TimedOut(`wait: job ${id} has not ended within ${options.timeout} s`);
      const timeout = Math.min(this.timeout, left);
      const answer = await this.ask("wait", "GET", jobPath(queue, id), { ...options, timeout, queue, id });
      const job = parse<JobInfo>(answer);
      if (ended.has(job.state)) return job;
      // The server's clock decides, because the eta is by its clock.
      const now = Date.parse(answer.headers["date"] ?? "") || Date.now();
      const due = job.eta ? (Date.parse(job.eta.at) - now) / 1000 + 0.1 : 0;
      const remaining = (end - performance.now()) / 1000;
      const nap = Math.min(5, Math.max(rest, due));
      await sleep(Math.min(nap, Math.max(0, remaining)), options.signal).catch(() => { throw cancelled(options.signal!); });
    }
  }

  /** turn waits for a turn of a queue. Aborting the signal gives the place back. */
  async turn(queue: string, options: TurnOptions = {}): Promise<Turn> {
    const { wait: longest = 30, costs, reportWithin, ...rest } = options;
    const wait = seconds(longest, "wait");
    const json = {
      wait: text(wait), costs: costs && checked("costs", costs),
      report_within: reportWithin === undefined ? undefined : text(reportWithin, "report_within"),
    };
    const answer = parse<TurnAnswer>(await this.ask("turn", "POST", queuePath(queue, "turns"), {
      ...rest, timeout: options.timeout ?? wait + this.timeout, queue, json,
    }));
    return new Turn(this, queue, answer);
  }

  /** pacedFetch returns a function like fetch that waits for a turn of the queue before each request. */
  pacedFetch(queue: string, options: PacedOptions = {}): typeof fetch {
    queuePath(queue);
    return pacedFetch(this, queue, options);
  }

  /**
   * proxyUrl returns the base URL of a queue's pacing proxy, for any HTTP library or SDK. The library sends a token of
   * Penstock as its key. Each call waits for its turn in the queue and goes to the queue's target. With a Unix socket, the
   * URL is at localhost, for libraries that can use the socket.
   */
  proxyUrl(queue: string): string {
    return `${this.transport.url}/proxy/${segment(queue, "queue")}`;
  }

  /** throttle stops a queue for a time. It returns undefined if the server is too old to do so. */
  async throttle(
    queue: string, after: Duration, options: CallOptions & { reason?: string | undefined } = {},
  ): Promise<{ until: string } | undefined> {
    const json = { after: text(after, "after"), reason: options.reason };
    try {
      return parse(await this.ask("throttle", "POST", queuePath(queue, "throttle"), { ...options, queue, json }));
    } catch (error) {
      if (error instanceof Refused && (error.reason === "not_found" || error.status === 405)) return undefined;
      throw error;
    }
  }

  /** worker returns a worker that calls handler with each job of a pull queue. Its method run starts it. */
  worker<T = unknown>(queue: string, handler: Handler<T>, options: WorkerOptions = {}): Worker<T> {
    queuePath(queue);
    return new Worker<T>(this, queue, handler, options);
  }

  /** take asks a rule to allow a request. A refusal is a result with allowed: false. A take is never repeated. */
  take(rule: string, options: TakeOptions = {}): Promise<TakeResult> {
    return take(this, rule, options);
  }

  /** peek returns what a take would answer, and counts nothing. */
  peek(rule: string, options: Omit<TakeOptions, "wait" | "receipt"> = {}): Promise<TakeResult> {
    return peek(this, rule, options);
  }

  /** refund gives the cost or the place of a take back. It is never repeated. */
  refund(rule: string, options: Omit<TakeOptions, "wait" | "costs"> = {}): Promise<TakeResult> {
    return refund(this, rule, options);
  }

  /**
   * correct charges the actual cost of a take, in the rule's unit, in place of its first cost. take is from its result,
   * and key the key of the take. Only the first correction counts.
   */
  correct(
    rule: string, take: string, actual: Costs, options: CallOptions & { key?: string | undefined } = {},
  ): Promise<TakeResult> {
    return correct(this, rule, take, actual, options);
  }

  /** putQueue creates a queue or replaces its settings. With a condition, it is not repeated when its outcome is unknown. */
  async putQueue(
    queue: string, spec: Partial<Spec>, options: CallOptions & { ifMatch?: number | string; ifNoneMatch?: "*" } = {},
  ): Promise<ChangedQueue> {
    const { ifMatch, ifNoneMatch } = options;
    const headers: Record<string, string> = ifNoneMatch ? { "If-None-Match": ifNoneMatch } : {};
    if (ifMatch !== undefined) headers["If-Match"] = String(ifMatch).replace(/^\d+$/, '"$&"');
    const idempotent = ifMatch === undefined && !ifNoneMatch;
    return parse(await this.ask("putQueue", "PUT", queuePath(queue), { ...options, queue, headers, json: spec, idempotent }));
  }

  async getQueue(queue: string, options: CallOptions = {}): Promise<Queue> {
    return parse(await this.ask("getQueue", "GET", queuePath(queue), { ...options, queue }));
  }

  /** deleteQueue deletes a queue; with force, its jobs too. */
  async deleteQueue(queue: string, options: CallOptions & { force?: boolean } = {}): Promise<void> {
    const path = queuePath(queue) + query({ force: options.force || undefined });
    await this.ask("deleteQueue", "DELETE", path, { ...options, queue, idempotent: false });
  }

  /** apply puts each queue, parents first. Applying the same specs again changes nothing. */
  async apply(specs: Record<string, Partial<Spec>>, options: CallOptions = {}): Promise<ChangedQueue[]> {
    const changed: ChangedQueue[] = [];
    for (const name of Object.keys(specs).sort()) changed.push(await this.putQueue(name, specs[name]!, options));
    return changed;
  }

  /** forecast returns when the jobs of a queue will leave, also at an assumed rate or with assumed settings. */
  async forecast(
    queue: string, options: CallOptions & { rate?: string; set?: Record<string, string | number | boolean> } = {},
  ): Promise<QueueForecast> {
    const set = Object.entries(options.set ?? {}).map(([name, value]) => `${name}=${value}`);
    const path = queuePath(queue, "forecast") + query({ rate: options.rate, set });
    return parse(await this.ask("forecast", "GET", path, { ...options, queue }));
  }

  async pause(queue: string, options: CallOptions & { reason?: string; until?: Date | string } = {}): Promise<Queue> {
    const json = { reason: options.reason, until: options.until };
    return parse(await this.ask("pause", "POST", queuePath(queue, "pause"), { ...options, queue, json }));
  }

  async resume(queue: string, options: CallOptions = {}): Promise<Queue> {
    return parse(await this.ask("resume", "POST", queuePath(queue, "resume"), { ...options, queue }));
  }

  /** events yields the events of one queue, or of all, for ever. It reconnects by itself and continues where it was. */
  events(queue?: string, options: EventOptions = {}): AsyncGenerator<StreamEvent, void, undefined> {
    return events(this, queue, options);
  }

  /** ask sends an ordinary call. By default it is idempotent. */
  ask(call: string, method: string, path: string, options: AskOptions): Promise<Answer> {
    const { json, timeout = this.timeout, ...rest } = options;
    const body = json === undefined ? {} : { body: JSON.stringify(json) };
    return this.transport.call({ call, method, path, idempotent: true, ...body, ...rest, timeout: seconds(timeout, "timeout") });
  }

  /** close ends idle connections. Calls under way fail. */
  close(): void {
    this.transport.close();
  }
}

/** queuePath returns the path of a queue. */
export function queuePath(queue: string, part?: string): string {
  return `/v1/queues/${segment(queue, "queue")}${part ? `/${part}` : ""}`;
}

function jobPath(queue: string, id: string): string {
  return `${queuePath(queue)}/jobs/${segment(id, "id")}`;
}

/** segment returns a name as one segment of a path. */
export function segment(name: string, field: string): string {
  if (typeof name !== "string" || name === "") throw new Misuse(`${field}: must be a name`, field);
  // These would change the path.
  if (name === "." || name === "..") throw new Misuse(`${field}: ${name} is not a name`, field);
  return encodeURIComponent(name);
}

function query(values: Record<string, unknown>): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined) params.append(name, one instanceof Date ? one.toISOString() : String(one));
    }
  }
  return params.size > 0 ? `?${params}` : "";
}
