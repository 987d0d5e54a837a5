import { hostname } from "node:os";
import type { CallOptions, Penstock } from "./client.js";
import { seconds, sleep, type Duration } from "./duration.js";
import { LeaseLost, Misuse, PenstockError, Refused } from "./errors.js";
import type { HookEvent } from "./hook.js";
import { parse } from "./http.js";
import { clip, Outcome, type Settlement } from "./outcome.js";
import { pause } from "./retry.js";
import { parts } from "./slices.js";
import type { PulledJob } from "./types.js";

/** LeasedJob is a job that a worker may work on until its signal aborts. */
export interface LeasedJob<T = unknown> {
  id: string;
  payload: T;
  /** The JSON text of the payload, unchanged, for numbers that JavaScript cannot hold. */
  payloadText?: string;
  /** The payload, if it is not JSON. */
  payloadBytes?: Buffer;
  contentType: string;
  headers: Record<string, string>;
  lane?: string;
  priority: number;
  cost: number;
  /** What is charged for the job in other units. */
  costs: Record<string, number>;
  /** Number of the attempt, from 1. */
  attempt: number;
  appendedAt: Date;
  /** Aborts when the lease is lost, the worker gives the job up, or the grace of a stop is over. Then stop. */
  signal: AbortSignal;
  /**
   * Records what the job has used, by unit, such as tokens. It replaces what was charged at the departure, however the
   * job ends. The last report counts. What the server refuses is reported as settle_failed, and not charged.
   */
  reportActual(costs: Record<string, number>): void;
  /** Settles the job before the handler returns. The handler must not settle it again. */
  settle(outcome: Outcome): void;
  /** The job as it arrived. */
  raw: PulledJob & Record<string, unknown>;
}

/** Handler works on a job. If it returns, the job is delivered; if it throws, the job is retried. See Outcome. */
export type Handler<T = unknown> = (job: LeasedJob<T>) => unknown;

export interface WorkerOptions {
  /** Maximum number of jobs at the same time. Default: 10. */
  concurrency?: number;
  /** Name for people. Default: the host and process. */
  name?: string;
  /** Stops the worker when it aborts. */
  signal?: AbortSignal;
  /** Time that a stop gives running handlers before it aborts their signals. Default: 30 s. */
  grace?: Duration;
  /** Time after which a handler is abandoned and its job retried. Default: never. */
  maxTime?: Duration;
}

/** WorkerStats counts jobs: handlers started, outcomes that the server has accepted, and leases lost. */
export interface WorkerStats {
  started: number;
  settled: number;
  lost: number;
}

interface Run {
  job: PulledJob;
  begun: number;
  /** The lease's time in milliseconds, when it was given or extended last. */
  lease: number;
  /** By performance.now: the lease is surely ours before end, and surely over after gone. */
  end: number;
  gone: number;
  extendAt: number;
  extending: boolean;
  blocked: boolean;
  failed: number;
  control: AbortController;
  /** The handler has neither returned nor been abandoned. */
  open: boolean;
  lost: boolean;
  /** The server has answered the settlement. */
  done: boolean;
  settlement?: Settlement;
  actual?: Record<string, number>;
}

interface Settled {
  id: string; state?: string; stale?: true; expires_in_ms?: number; status?: number; reason?: string; retry_after_ms?: number;
}

const maxBatch = 100;
const longest = "30s";
/** Milliseconds in which a lease request under way may still be answered after a stop. */
const lastAnswer = 200;
/** Milliseconds in which a handler may still return after its signal has aborted at the end of the grace. */
const lastWord = 1000;

/** Worker leases jobs of a pull queue, calls the handler with each, and settles them. */
export class Worker<T = unknown> {
  readonly stats: WorkerStats = { started: 0, settled: 0, lost: 0 };
  private readonly concurrency: number;
  private readonly name: string;
  private readonly maxTime: number;
  private readonly runs = new Set<Run>();
  private readonly outbox: Run[] = [];
  private readonly leasing = new AbortController();
  private stopped = false;
  private flushing = false;
  private ticker: NodeJS.Timeout | undefined;
  private finished: Promise<WorkerStats> | undefined;
  private graceTimer: NodeJS.Timeout | undefined;
  private wake: () => void = () => {};

  constructor(
    private readonly client: Penstock, readonly queue: string, private readonly handler: Handler<T>,
    private readonly options: WorkerOptions,
  ) {
    this.concurrency = options.concurrency ?? 10;
    if (!Number.isInteger(this.concurrency) || this.concurrency < 1) {
      throw new Misuse("concurrency: must be a whole number from 1", "concurrency");
    }
    if (typeof handler !== "function") throw new Misuse("handler: must be a function", "handler");
    this.maxTime = options.maxTime === undefined ? Infinity : seconds(options.maxTime, "maxTime") * 1000;
    const name = options.name ?? `${hostname()}:${process.pid}`;
    this.name = name.replace(/[^!-~]/g, "-").slice(-64);
  }

  /** run starts the worker and returns when it has stopped. It stops at SIGTERM and SIGINT, unless signals is false. */
  async run({ signals = true }: { signals?: boolean } = {}): Promise<WorkerStats> {
    const stop = () => {
      unhook(); // a second signal ends the process at once
      void this.stop();
    };
    const unhook = () => process.off("SIGTERM", stop).off("SIGINT", stop);
    if (signals) process.on("SIGTERM", stop).on("SIGINT", stop);
    try {
      return await this.start();
    } finally {
      unhook();
    }
  }

  /** start starts the worker, without handling signals. Its promise settles when the worker has stopped. */
  start(): Promise<WorkerStats> {
    return (this.finished ??= this.main());
  }

  /** stop takes no further jobs, gives running handlers the grace, cancels the others, and settles all. */
  stop(options: { grace?: Duration } = {}): Promise<WorkerStats> {
    // Jobs that the server has just leased must not wait for the end of their leases.
    if (!this.stopped) setTimeout(() => this.leasing.abort(new PenstockError("the worker stops")), lastAnswer);
    this.stopped = true;
    const grace = seconds(options.grace ?? this.options.grace ?? 30, "grace");
    clearTimeout(this.graceTimer);
    if (this.runs.size > 0) this.graceTimer = setTimeout(() => this.giveUp(), grace * 1000);
    this.wake();
    return this.finished ?? Promise.resolve(this.stats);
  }

  private async main(): Promise<WorkerStats> {
    const { signal } = this.options;
    const stop = () => void this.stop();
    if (signal?.aborted) stop();
    signal?.addEventListener("abort", stop, { once: true });
    let failure: unknown;
    try {
      await this.lease();
    } catch (error) {
      failure = error;
      void this.stop();
    }
    while (this.runs.size > 0) await new Promise<void>((resolve) => (this.wake = resolve));
    clearTimeout(this.graceTimer);
    clearTimeout(this.ticker);
    signal?.removeEventListener("abort", stop);
    if (failure !== undefined) throw failure;
    return this.stats;
  }

  /** lease asks for jobs until the worker stops. What fails is reported and tried again. */
  private async lease(): Promise<void> {
    const { signal } = this.leasing;
    for (let failed = 0; !this.stopped;) {
      const free = this.concurrency - [...this.runs].filter((run) => run.open).length;
      if (free <= 0) {
        await new Promise<void>((resolve) => (this.wake = resolve));
        continue;
      }
      try {
        const json = { max: Math.min(free, 500), wait: longest, worker: this.name };
        const answer = await this.ask("leases", json, { signal, timeout: seconds(longest) + this.client.timeout });
        failed = 0;
        const came = performance.now();
        this.take(answer, came);
      } catch (error) {
        if (this.stopped) return;
        if (error instanceof Misuse) throw error;
        const wait = Math.max(0.05, pause(++failed, error instanceof Refused ? error.retryAfter : 0));
        this.report({ kind: "lease_failed", error, attempt: failed, pause: wait });
        await sleep(wait, signal).catch(() => {});
      }
    }
  }

  /** take starts the jobs of an answer. */
  private take(answer: string, came: number): void {
    const jobs = (JSON.parse(answer) as { jobs: PulledJob[] }).jobs;
    if (jobs.length === 0) return;
    const texts = parts(parts(answer).get("jobs")!);
    jobs.forEach((job, i) => {
      const lease = job.expires_in_ms;
      const run: Run = {
        job, begun: came, lease, end: came + lease, gone: came + lease, extendAt: came + lease / 3, extending: false,
        blocked: false, failed: 0, control: new AbortController(), open: true, lost: false, done: false,
      };
      this.runs.add(run);
      if (this.stopped) this.settle(run, { outcome: "released" });
      else void this.handle(run, texts.get(String(i))!);
    });
    this.tick();
  }

  private async handle(run: Run, raw: string): Promise<void> {
    this.stats.started++;
    let settlement: Settlement;
    try {
      settlement = this.read(run, await this.handler(this.present(run, raw)));
    } catch (thrown) {
      settlement = this.read(run, thrown, true);
    }
    this.checkBlocked(run);
    if (run.open && !run.settlement && !run.lost) this.settle(run, settlement);
    else this.close(run);
    this.wake();
  }

  /** read returns the settlement for what a handler returned or threw. It reports misuse. */
  private read(run: Run, value: unknown, thrown = false): Settlement {
    const { id } = run.job;
    if (run.settlement && run.open && (thrown || value instanceof Outcome)) {
      this.report({ kind: "misuse", id, error: new Misuse(`job ${id}: the handler settled the job twice`, "", { cause: value }) });
    }
    if (value instanceof Outcome) return value.settlement;
    if (!thrown) return { outcome: "delivered" };
    if (value instanceof Error) {
      if (!run.control.signal.aborted) this.report({ kind: "failed", id, error: value });
      return { outcome: "retry", reason: clip(value.message || value.name) };
    }
    this.report({ kind: "misuse", id, error: new Misuse(`job ${id}: the handler threw a ${typeof value}; throw an Error`) });
    return { outcome: "retry", reason: clip(describe(value)) };
  }

  private present(run: Run, raw: string): LeasedJob<T> {
    const { job } = run;
    const payloadText = parts(raw).get("payload");
    return {
      id: job.id, payload: job.payload as T, contentType: job.content_type, headers: job.headers ?? {}, cost: job.cost,
      costs: job.costs ?? {},
      priority: job.priority ?? 0, attempt: job.attempt, appendedAt: new Date(job.appended_at), signal: run.control.signal,
      ...(payloadText !== undefined && { payloadText }), ...(job.lane !== undefined && { lane: job.lane }),
      ...(job.payload_base64 !== undefined && { payloadBytes: Buffer.from(job.payload_base64, "base64") }),
      raw: job as LeasedJob["raw"],
      reportActual: (costs) => void (run.actual = { ...costs }),
      settle: (outcome) => {
        const misuse = !(outcome instanceof Outcome) ? "settle: must get an Outcome, such as dead(\"...\")"
          : run.settlement && run.open ? `job ${job.id}: the handler settled the job twice` : "";
        if (misuse) {
          const error = new Misuse(misuse);
          this.report({ kind: "misuse", id: job.id, error });
          throw error;
        }
        if (run.open && !run.lost) this.settle(run, outcome.settlement, true);
      },
    };
  }

  /** settle queues a settlement. If the handler still runs, its place stays taken. */
  private settle(run: Run, settlement: Settlement, running = false): void {
    run.settlement = run.actual ? { ...settlement, actual: run.actual } : settlement;
    run.open = running;
    this.outbox.push(run);
    void this.flush();
  }

  /** flush sends settlements until none is left. Settlements that become ready meanwhile travel together. */
  private async flush(): Promise<void> {
    if (this.flushing) return;
    this.flushing = true;
    await Promise.resolve();
    let single = false;
    for (let failed = 0; this.outbox.length > 0;) {
      const batch = this.outbox.splice(0, single ? 1 : maxBatch);
      let wait = 0;
      // A request that hangs must leave time to repeat it, and keeps back the others.
      const timeout = Math.min(this.client.timeout, Math.max(1, Math.min(...batch.map((run) => run.lease)) / 3000));
      try {
        const jobs = batch.map((run) => ({ id: run.job.id, lease: run.job.lease, ...run.settlement! }));
        const answers = (JSON.parse(await this.ask("settle", { jobs }, { timeout })) as { jobs: Settled[] }).jobs;
        failed = 0;
        single = false;
        batch.forEach((run, i) => {
          const answer = answers[i];
          if (answer?.stale) this.lose(run, "settled too late");
          else if (answer?.state !== undefined) {
            this.stats.settled++;
            this.drop(run);
          } else {
            const status = answer?.status ?? 503;
            const error = new Refused(status, { reason: "outcome_unknown", ...answer });
            if (status < 500 && this.strip(run)) this.repeat(run, error);
            else this.repeat(run, error, pause(1, (answer?.retry_after_ms ?? 0) / 1000));
          }
        });
      } catch (error) {
        const refused = final(error) && ![401, 403].includes((error as Refused).status);
        if (refused && batch.length === 1 && this.strip(batch[0]!)) this.repeat(batch[0]!, error);
        else if (refused && batch.length === 1) {
          this.report({ kind: "settle_failed", id: batch[0]!.job.id, error });
          this.lose(batch[0]!, (error as Error).message);
        } else {
          // One settlement that the server cannot accept must not keep back the others.
          single = refused;
          const least = error instanceof Refused ? error.retryAfter : 0;
          if (!refused) wait = Math.max(least, Math.min(timeout, pause(++failed)));
          for (const run of batch) this.repeat(run, error);
        }
      }
      if (wait > 0) await sleep(wait);
      this.wake();
    }
    this.flushing = false;
    this.wake();
  }

  /** strip removes actual costs from a settlement that was refused, perhaps for them. It reports whether there were any. */
  private strip(run: Run): boolean {
    if (!run.settlement?.actual) return false;
    const { actual: _, ...rest } = run.settlement;
    run.settlement = rest;
    return true;
  }

  /** repeat queues a settlement again after a wait, unless the lease has surely run out. */
  private repeat(run: Run, error: unknown, wait = 0): void {
    this.report({ kind: "settle_failed", id: run.job.id, error });
    if (performance.now() > run.gone) return this.lose(run, "not settled within the lease");
    if (wait === 0) return void this.outbox.push(run);
    setTimeout(() => {
      this.outbox.push(run);
      void this.flush();
    }, wait * 1000);
  }

  /** lose ends a job whose lease is lost: it cancels the handler and forgets the settlement. */
  private lose(run: Run, why: string): void {
    if (run.lost || !this.runs.has(run)) return;
    run.lost = true;
    const error = new LeaseLost(`job ${run.job.id}: the lease is lost: ${why}`);
    this.stats.lost++;
    this.report({ kind: "lost", id: run.job.id, error });
    delete run.settlement;
    run.control.abort(error);
    if (!run.open) this.drop(run);
  }

  /** close notes that a handler has ended, or is no longer waited for. */
  private close(run: Run): void {
    run.open = false;
    if (run.done || !run.settlement) this.drop(run);
  }

  /** drop notes that nothing is left to settle. The job is forgotten when its handler has ended, too. */
  private drop(run: Run): void {
    run.done = true;
    if (!run.open) this.runs.delete(run);
    this.wake();
  }

  /** tick sets the timer for the next lease to extend, or handler to abandon. */
  private tick(): void {
    clearTimeout(this.ticker);
    let next = Infinity;
    for (const run of this.runs) {
      if (run.done || run.lost) continue;
      // While it is extended, a blocked job waits for the answer.
      const lease = !run.extending ? Math.min(run.extendAt, run.end) : run.blocked ? Infinity : run.end;
      // A settled job is extended until the server answers, which also says whether the lease was lost.
      if (run.settlement) next = run.extending ? next : Math.min(next, run.extendAt);
      else next = Math.min(next, lease, run.begun + this.maxTime);
    }
    if (next < Infinity) this.ticker = setTimeout(() => this.due(), Math.min(2 ** 31 - 1, Math.max(0, next - performance.now())));
  }

  private due(): void {
    const now = performance.now();
    const extend: Run[] = [];
    for (const run of this.runs) {
      if (run.done || run.lost) continue;
      this.checkBlocked(run);
      if (now >= run.begun + this.maxTime && !run.settlement) {
        const error = new Misuse(`job ${run.job.id}: the handler did not return within maxTime`);
        this.report({ kind: "abandoned", id: run.job.id, error });
        this.settle(run, { outcome: "retry", reason: "the handler did not return in time" });
        run.control.abort(error);
      } else if (now >= run.end && run.settlement) run.extendAt = Infinity;
      else if (now >= run.end && !run.blocked) this.lose(run, "it could not be extended");
      // Leases that are soon due join, which saves requests.
      else if (!run.extending && run.extendAt <= now + Math.max(0, run.end - now) / 10 && extend.length < 500) extend.push(run);
    }
    if (extend.length > 0) void this.extend(extend);
    this.tick();
  }

  private async extend(runs: Run[]): Promise<void> {
    for (const run of runs) run.extending = true;
    const sent = performance.now();
    const left = Math.min(...runs.map((run) => run.end)) - sent;
    let answers: Settled[] = [];
    let problem: unknown;
    try {
      const jobs = runs.map(({ job: { id, lease } }) => ({ id, lease }));
      const timeout = Math.min(this.client.timeout, Math.max(1, left / 2000));
      answers = (JSON.parse(await this.ask("extend", { jobs }, { timeout })) as { jobs: Settled[] }).jobs;
    } catch (error) {
      problem = error;
      this.report({ kind: "extend_failed", error, jobs: runs.length });
    }
    const now = performance.now();
    runs.forEach((run, i) => {
      run.extending = run.blocked = false;
      const left = answers[i]?.expires_in_ms;
      if (left === 0 && run.settlement) run.extendAt = Infinity; // perhaps because it is settled
      else if (left === 0) this.lose(run, "the server says so");
      else if (left !== undefined) Object.assign(run, { lease: left, end: sent + left, gone: now + left, extendAt: sent + left / 3, failed: 0 });
      else {
        if (problem === undefined) this.report({ kind: "extend_failed", id: run.job.id, error: new Refused(503, { ...answers[i] }) });
        run.extendAt = now + Math.max(50, pause(++run.failed, (answers[i]?.retry_after_ms ?? 0) / 1000) * 1000);
      }
    });
    this.tick();
  }

  /** checkBlocked reports a handler that blocked the event loop so long that its lease could not be extended. */
  private checkBlocked(run: Run): void {
    const now = performance.now();
    if (run.extending || run.settlement || run.blocked || run.control.signal.aborted || now < run.end || run.extendAt >= run.end) return;
    if (now - run.extendAt < (run.end - run.extendAt) / 2) return;
    run.blocked = true; // the server is asked once more whether the lease is lost
    const error = new Misuse(`job ${run.job.id}: a handler blocked the event loop for longer than the lease`);
    this.report({ kind: "blocked", id: run.job.id, error });
  }

  /** giveUp ends the grace of a stop: it cancels running handlers, which may still return a result. */
  private giveUp(): void {
    for (const run of this.runs) if (run.open) run.control.abort(new PenstockError("the worker stopped"));
    this.graceTimer = setTimeout(() => {
      for (const run of this.runs) {
        const { id } = run.job;
        if (!run.open) continue;
        this.report({ kind: "abandoned", id, error: new PenstockError(`job ${id}: the handler did not return within the grace`) });
        if (run.settlement || run.lost) this.close(run);
        else this.settle(run, { outcome: "retry", reason: "the worker stopped" });
      }
      this.wake();
    }, lastWord);
  }

  private async ask(part: string, json: unknown, options: CallOptions): Promise<string> {
    const path = `/v1/queues/${encodeURIComponent(this.queue)}/${part}`;
    // The worker repeats these calls itself, because it knows until when that makes sense.
    const answer = await this.client.ask(part, "POST", path, { ...options, json, queue: this.queue, idempotent: false });
    parse(answer);
    return answer.text;
  }

  private report(event: HookEvent): void {
    this.client.on({ ...event, queue: this.queue });
  }
}

/** final reports whether an error will come again however long the worker waits. */
function final(error: unknown): boolean {
  return error instanceof Misuse || (error instanceof Refused && error.status < 500 && error.status !== 408 && error.status !== 429);
}

function describe(value: unknown): string {
  try {
    return typeof value === "string" ? value : (JSON.stringify(value) ?? String(value));
  } catch {
    return "a value that has no text form";
  }
}

