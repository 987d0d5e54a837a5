import { seconds, type Duration } from "./duration.js";
import { Misuse, PenstockError, Refused, Unreachable, retryAfterOf } from "./errors.js";
import type { Hook } from "./hook.js";
import { linesOf, type Transport } from "./http.js";
import { encode, type Appended, type Job } from "./job.js";
import { cancelled, Limit, mayRetry, pause } from "./retry.js";
import type { Line } from "./types.js";

export interface StreamOptions {
  /** Maximum number of jobs taken from the source whose results the caller has not read. Default: 1,000. */
  inFlight?: number | undefined;
  /** Time since a job's first attempt during which it is sent again after a 429 or 503. 0: never. Default: 1 minute. */
  retryFor?: Duration | undefined;
  /** Time without any progress after which a request counts as broken. Default: 10 s. */
  timeout?: Duration | undefined;
  signal?: AbortSignal | undefined;
  traceparent?: string | undefined;
}

/** StreamResult is the answer about one job of a stream: accepted, or an error beside the job's id. */
export type StreamResult = { index: number } & ((Appended & { error?: undefined }) | { id: string; error: PenstockError });

type Source = Iterable<Job> | AsyncIterable<Job>;

interface Item {
  index: number;
  id: string;
  text: string;
  /** Time of the first attempt; 0 before. */
  first: number;
  failed: number;
  answered: boolean;
  /** Number of the request that carries it; 0 while it waits. */
  request: number;
}

const maxLines = 1000;
const maxBytes = 1_000_000;
const streamRequests = 2;

/** Stream appends jobs from a source with bounded memory. Each request carries a part of the stream. */
export class Stream {
  private readonly limit: number;
  private readonly maxRequests: number;
  private readonly part: number;
  private readonly retryFor: number;
  private readonly timeout: number;
  private readonly control = new AbortController();
  private readonly iterator: Iterator<Job> | AsyncIterator<Job>;
  private readonly timers = new Set<NodeJS.Timeout>();
  private ready: Item[] = [];
  private results: StreamResult[] = [];
  private held = 0;
  private taken = 0;
  private requests = 0;
  private sent = 0;
  private broken = 0;
  private filling = false;
  private ended = false;
  private scheduled = false;
  private failure: unknown;
  private wake: () => void = () => {};

  constructor(
    private readonly transport: Transport, private readonly queue: string, source: Source,
    private readonly options: StreamOptions, private readonly on: Hook,
    /**
     * Whether the jobs are a list: requests then follow one another, so that the jobs wait in its order, and the refusal
     * of a request is thrown. If not, a refusal is the result of each of its jobs.
     */
    private readonly listed = false,
  ) {
    this.limit = options.inFlight ?? 1000;
    if (!Number.isInteger(this.limit) || this.limit < 1) throw new Misuse("inFlight: must be a whole number from 1", "inFlight");
    this.maxRequests = listed ? 1 : streamRequests;
    this.part = Math.min(maxLines, Math.ceil(this.limit / this.maxRequests));
    this.retryFor = seconds(options.retryFor ?? 60, "retryFor");
    this.timeout = seconds(options.timeout ?? 10, "timeout");
    const many = source as Partial<AsyncIterable<Job> & Iterable<Job>>;
    const iterator = many?.[Symbol.asyncIterator]?.() ?? many?.[Symbol.iterator]?.();
    if (!iterator || typeof source === "string") throw new Misuse("jobs: must be iterable", "jobs");
    this.iterator = iterator;
  }

  /** run yields one result per job, in the order of the answers. */
  async *run(): AsyncGenerator<StreamResult, void, undefined> {
    const { signal } = this.options;
    const stop = () => this.fail(cancelled(signal!));
    if (signal?.aborted) throw cancelled(signal);
    signal?.addEventListener("abort", stop, { once: true });
    try {
      for (;;) {
        void this.fill();
        const results = this.results;
        this.results = [];
        for (const result of results) {
          this.held--;
          yield result;
          void this.fill();
        }
        if (this.results.length > 0) continue;
        if (this.failure !== undefined && (this.held === 0 || this.control.signal.aborted)) throw this.failure;
        if (this.ended && this.held === 0) return;
        await new Promise<void>((resolve) => (this.wake = resolve));
      }
    } finally {
      signal?.removeEventListener("abort", stop);
      this.control.abort(new PenstockError("the stream was closed"));
      for (const timer of this.timers) clearTimeout(timer);
      if (!this.ended) {
        this.ended = true;
        // A source that waits for its next job must not delay the caller.
        void Promise.resolve(this.iterator.return?.()).catch(() => {});
      }
    }
  }

  /** fill takes jobs from the source while there is room. */
  private async fill(): Promise<void> {
    if (this.filling || this.ended || this.held >= this.limit) return;
    this.filling = true;
    try {
      while (this.held < this.limit && !this.ended) {
        const step = this.iterator.next();
        const next = "then" in step ? await step : step;
        if (next.done) this.ended = true;
        else if (!this.ended) this.accept(next.value);
      }
    } catch (error) {
      // The jobs already taken are still answered.
      this.ended = true;
      this.failure ??= error;
    } finally {
      this.filling = false;
      this.schedule();
      this.wake();
    }
  }

  private accept(job: Job): void {
    const index = this.taken++;
    this.held++;
    try {
      this.ready.push({ index, ...encode(job, true), first: 0, failed: 0, answered: false, request: 0 });
    } catch (error) {
      if (!(error instanceof PenstockError)) throw error;
      this.put({ index, id: job?.id ?? "", error });
    }
    if (this.ready.length === 1) this.schedule();
  }

  /** schedule sends what is ready, after jobs that come at the same time have joined. */
  private schedule(): void {
    if (this.scheduled || this.requests >= this.maxRequests || this.ready.length === 0) return;
    this.scheduled = true;
    setImmediate(() => {
      this.scheduled = false;
      while (this.requests < this.maxRequests && this.ready.length > 0 && !this.control.signal.aborted) void this.send(this.next());
    });
  }

  /** next removes the jobs of one request from the ready jobs and returns them. */
  private next(): Item[] {
    let count = 0;
    for (let bytes = 0; count < this.ready.length && count < this.part; count++) {
      bytes += this.ready[count]!.text.length;
      if (count > 0 && bytes > maxBytes) break;
    }
    return this.ready.splice(0, count);
  }

  private async send(items: Item[]): Promise<void> {
    this.requests++;
    const request = ++this.sent;
    const now = performance.now();
    for (const item of items) {
      item.first ||= now;
      item.request = request;
    }
    let why: unknown;
    try {
      why = await this.exchange(items);
      this.broken = 0;
    } catch (error) {
      why = error;
      this.broken++;
    }
    this.requests--;
    if (!this.control.signal.aborted) this.again(items.filter((item) => !item.answered && item.request === request), why);
    this.schedule();
    this.wake();
  }

  /** exchange sends items and reads their answers. It returns the reason if the server ended the stream early. */
  private async exchange(items: Item[]): Promise<Refused | undefined> {
    const late = () => new Unreachable(`append: no answer within ${this.timeout} s`);
    const limit = new Limit(this.control.signal, this.timeout, late);
    try {
      const answer = await this.transport.open({
        call: "append", method: "POST", path: `/v1/queues/${encodeURIComponent(this.queue)}/jobs`, queue: this.queue,
        type: "application/x-ndjson", body: items.map((item) => item.text + "\n").join(""), idempotent: true,
        timeout: this.timeout, traceparent: this.options.traceparent,
      }, limit.signal);
      let cut: Refused | undefined;
      for await (const lines of linesOf(answer, limit.signal)) {
        limit.refresh();
        for (const line of lines) cut = this.line(items, line) ?? cut;
        this.wake();
      }
      return cut;
    } finally {
      limit.end();
    }
  }

  /** line handles the answer about one job. It returns the error if the line is about the stream. */
  private line(items: Item[], text: string): Refused | undefined {
    if (text === "") return undefined;
    let line: Line;
    try {
      line = JSON.parse(text) as Line;
    } catch (error) {
      throw new Unreachable("a line of the answer is not JSON", { cause: error });
    }
    const item = items[line.line - 1];
    if (!item || item.answered) return undefined; // about the end of the stream, after the last job
    const { line: _, status, replayed, ...rest } = line;
    if (line.status === 200 || line.status === 202) {
      item.answered = true;
      this.put({ ...rest, id: line.id ?? item.id, index: item.index, duplicate: status === 200 } as StreamResult);
      return undefined;
    }
    const refused = new Refused(line.status, { id: item.id, ...line }, retryAfterOf(line.retry_after_ms));
    // These lines say why the stream ended: their job was not executed.
    if (["unauthenticated", "body_timeout", "body_incomplete", "stopping"].includes(refused.reason)) return refused;
    item.answered = true;
    if (![429, 503, 504].includes(line.status)) this.put({ index: item.index, id: item.id, error: refused });
    else this.postpone([item], refused, this.retryFor, pause(item.failed, refused.retryAfter));
    return undefined;
  }

  /** again sends the unanswered jobs of a request again, unless its error is final. */
  private again(items: Item[], why: unknown): void {
    if (items.length === 0) return;
    const error = why ?? new Unreachable("the connection closed within the answer");
    const cut = error instanceof Refused && ["unauthenticated", "body_timeout", "body_incomplete"].includes(error.reason);
    // An ended stream asks for the token again with its next request. A request that a new token does not help is final.
    if (!mayRetry(error) && !(cut && this.broken === 0)) {
      if (this.listed || !(error instanceof PenstockError)) return this.fail(error);
      for (const item of items) this.put({ index: item.index, id: item.id, error });
      return;
    }
    this.on({ kind: "resend", call: "append", queue: this.queue, error, jobs: items.length, attempt: items[0]!.failed + 1 });
    const wait = pause(items[0]!.failed, error instanceof Refused ? error.retryAfter : 0);
    this.postpone(items, error as PenstockError, Math.max(this.retryFor, this.timeout), wait);
  }

  /** postpone sends items again after a wait, together; the error is the result of those whose time would be over. */
  private postpone(items: Item[], error: PenstockError, within: number, wait: number): void {
    const at = performance.now() + wait * 1000;
    const later = items.filter((item) => {
      item.failed++;
      item.request = 0;
      if (at <= item.first + within * 1000) return true;
      this.put({ index: item.index, id: item.id, error });
      return false;
    });
    if (later.length === 0) return;
    const timer = setTimeout(() => {
      this.timers.delete(timer);
      for (const item of later) item.answered = false;
      this.ready.push(...later);
      this.schedule();
    }, wait * 1000);
    this.timers.add(timer);
  }

  private put(result: StreamResult): void {
    this.results.push(result);
    this.wake();
  }

  private fail(error: unknown): void {
    this.failure ??= error;
    this.control.abort(error);
    this.wake();
  }
}
