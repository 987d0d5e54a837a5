// The driver of the conformance tests: reads one request per line from stdin and writes one answer per line to stdout.
import { readFileSync } from "node:fs";
import { Agent, request as httpRequest } from "node:http";
import { createInterface } from "node:readline";
import { parts } from "../src/slices.js";
import {
  Cancelled, dead, held, Misuse, Penstock, problemOf, proxyHeaders, released, retry, throttled, TimedOut, Refused, Unreachable,
  type Job, type LeasedJob, type StreamResult, type TakeResult, type Worker,
} from "penstock";

type Args = Record<string, any>;
interface Started { worker: Worker; ids: string[]; payloads: string[]; abort: AbortController }

const kinds: string[] = [];
const client = new Penstock({
  on: (event) => {
    kinds.push(event.kind);
    console.error(JSON.stringify({ ...event, error: event.error && String(event.error) }));
  },
});
const under = new Map<number, AbortController>();
const workers: Started[] = [];
const forever = new AbortController();

function errorOf(error: unknown): Args {
  if (error instanceof Refused) {
    const { status, reason, field, retryAfter, id, detail } = error;
    return { kind: "refused", status, reason, field, retry_after: retryAfter, id, detail };
  }
  const kind = error instanceof Unreachable ? "unreachable" : error instanceof TimedOut ? "timeout"
    : error instanceof Cancelled || (error as Error)?.name === "AbortError" ? "cancelled"
    : error instanceof Misuse ? "invalid" : "unknown";
  return { kind, detail: error instanceof Error ? error.message : String(error), field: (error as Misuse)?.field ?? "" };
}

function jobOf(job: Args, raw?: string): Job {
  const { payload, payload_base64, content_type, not_before, expires_at, payload_json, ...rest } = job ?? {};
  const given = raw !== undefined ? { payloadJson: raw } : { payload };
  return {
    ...rest, ...(payload_json !== undefined ? { payloadJson: payload_json } : given), contentType: content_type,
    payloadBytes: payload_base64 === undefined ? undefined : Buffer.from(payload_base64, "base64"),
    notBefore: not_before, expiresAt: expires_at,
  };
}

function resultOf({ index: _, ...result }: StreamResult): Args {
  return result.error ? { id: result.id, error: errorOf(result.error) } : result;
}

function taken(result: TakeResult): Args {
  const { allowed, limit, remaining, retryAfter, resetAfter, receipt, lease } = result;
  return { allowed, limit, remaining, retry_after: retryAfter, reset_after: resetAfter, receipt, lease };
}

function* generated({ count, prefix = "job-", payload_size = 2 }: Args): Generator<Job> {
  const payloadJson = JSON.stringify("x".repeat(Math.max(0, payload_size - 2)));
  for (let i = 0; i < count; i++) yield { id: prefix + i, payloadJson };
}

async function handle(started: Started, args: Args, job: LeasedJob): Promise<unknown> {
  started.ids.push(job.id);
  if (args["actual"] !== undefined) job.reportActual(args["actual"]);
  switch (args["mode"] ?? "ok") {
    case "ok": return undefined;
    case "echo":
      started.payloads.push(job.payloadText ?? job.payloadBytes?.toString("base64") ?? "");
      return undefined;
    case "throw": throw new Error("the handler fails");
    case "throw_value": throw "a value";
    case "retry": return retry(args["after"], "again");
    case "dead": return dead("no use");
    case "throttled": return throttled(args["after"] ?? 0);
    case "released": return released();
    case "held": return held("unsure");
    case "slow": return new Promise<void>((resolve, reject) => {
      const timer = setTimeout(resolve, args["seconds"] * 1000);
      job.signal.addEventListener("abort", () => {
        clearTimeout(timer);
        reject(job.signal.reason);
      }, { once: true });
    });
    case "block": {
      const end = performance.now() + args["seconds"] * 1000;
      while (performance.now() < end);
      return undefined;
    }
    case "never": return new Promise(() => {});
    case "settle_twice":
      job.settle(dead("first"));
      return dead("second");
    default: throw new Misuse(`mode: ${args["mode"]} is unknown`);
  }
}

async function call(name: string, args: Args, options: Args, signal: AbortSignal, payloads: (string | undefined)[]): Promise<unknown> {
  const o = { timeout: options["timeout"], traceparent: options["traceparent"], signal };
  const queue: string = args["queue"];
  switch (name) {
    case "append": return client.append(queue, jobOf(args["job"], payloads[0]), o);
    case "append_many":
    case "append_stream": {
      const stream = { ...o, inFlight: args["in_flight"], retryFor: args["retry_for"] };
      if (args["count"] === undefined) {
        const jobs = (args["jobs"] as Args[]).map((job, i) => jobOf(job, payloads[i]));
        if (name === "append_many") return { results: (await client.appendMany(queue, jobs, stream)).map(resultOf) };
        const results: Args[] = [];
        for await (const result of client.appendStream(queue, jobs, stream)) results[result.index] = resultOf(result);
        return { results };
      }
      const counts = { accepted: 0, duplicates: 0, failed: 0 };
      for await (const result of client.appendStream(queue, generated(args), stream)) {
        if (result.error) counts.failed++;
        else if (result.duplicate) counts.duplicates++;
        else counts.accepted++;
      }
      return counts;
    }
    case "get": return client.get(queue, args["id"], o);
    case "list": {
      const ids: string[] = [];
      const { queue: _, ...filter } = args;
      for await (const job of client.list(queue, { ...filter, ...o } as any)) ids.push(job.id);
      return { ids };
    }
    case "cancel_job": return client.cancel(queue, args["id"], o);
    case "wait": return client.wait(queue, args["id"], { ...o, timeout: args["timeout"] ?? options["timeout"] });
    case "turn": {
      const turn = await client.turn(queue, {
        ...o, wait: args["wait"], costs: args["costs"], reportWithin: args["report_within"],
      });
      if (args["actual"] !== undefined) await turn.reportActual(args["actual"], { signal });
      return { waited: turn.waited, costs: turn.costs };
    }
    case "time_turns": {
      const took: Record<string, number[]> = { bare: [], client: [] };
      for (let n = 0; n < args["count"]; n++) {
        const began = performance.now();
        await bareTurn(args["url"]);
        const between = performance.now();
        await client.turn(queue, { wait: 30 });
        took["bare"]!.push((between - began) / 1000);
        took["client"]!.push((performance.now() - between) / 1000);
      }
      return took;
    }
    case "paced_get": {
      const actual = args["actual"] === undefined ? undefined : () => args["actual"];
      const get = client.pacedFetch(queue, { wait: args["wait"], costs: args["costs"], actual });
      const response = await get(args["url"], { signal });
      await response.arrayBuffer();
      return { status: response.status };
    }
    case "proxy": return throughProxy(args, signal);
    case "throttle": return (await client.throttle(queue, args["after"], { ...o, reason: args["reason"] })) ?? {};
    case "worker": {
      const abort = new AbortController();
      const started: Started = { worker: undefined as any, ids: [], payloads: [], abort };
      started.worker = client.worker(queue, (job) => handle(started, args, job), {
        concurrency: args["concurrency"] ?? 10, ...(args["max_time"] !== undefined && { maxTime: args["max_time"] }),
        ...(args["name"] !== undefined && { name: args["name"] }),
      });
      started.worker.start().catch((error: unknown) => console.error(`worker: ${error}`));
      return { worker: workers.push(started) };
    }
    case "worker_stop": {
      const { worker, ids, payloads } = workers[args["worker"] - 1]!;
      while (ids.length < (args["begun"] ?? 0)) await new Promise((resolve) => setTimeout(resolve, 1));
      return { ...(await worker.stop({ grace: args["grace"] ?? 30 })), ids, payloads };
    }
    case "take": {
      const result = await client.take(args["rule"], { ...args, ...o });
      if (args["actual"] === undefined) return taken(result);
      return taken(await client.correct(args["rule"], result.take ?? "", args["actual"], { key: args["key"], ...o }));
    }
    case "correct": return taken(await client.correct(args["rule"], args["take"], args["actual"], { key: args["key"], ...o }));
    case "peek": return taken(await client.peek(args["rule"], { ...args, ...o }));
    case "refund": return taken(await client.refund(args["rule"], { ...args, ...o }));
    case "put_queue": return client.putQueue(queue, args["spec"], { ...o, ifMatch: args["if_match"], ifNoneMatch: args["if_none_match"] });
    case "get_queue": return client.getQueue(queue, o);
    case "delete_queue": return (await client.deleteQueue(queue, { ...o, force: args["force"] })) ?? {};
    case "pause": return client.pause(queue, { ...o, reason: args["reason"], until: args["until"] });
    case "resume": return client.resume(queue, o);
    case "forecast": return client.forecast(queue, { ...o, rate: args["rate"], set: args["set"] });
    case "events": {
      const seen: string[] = [];
      for await (const event of client.events(queue, { signal })) {
        if (seen.push(event.kind) >= args["count"]) break;
      }
      return { kinds: seen };
    }
    case "hooks": return { events: kinds };
    case "cancel":
      under.get(args["of"])?.abort();
      return {};
    default: throw new Misuse(`call: ${name} is unknown`);
  }
}

/** throughProxy makes a call with the global fetch. With ack, it calls that URL after each event of the answer. */
async function throughProxy(args: Args, signal: AbortSignal): Promise<unknown> {
  const token = readFileSync(process.env["PENSTOCK_TOKEN_FILE"]!, "utf8").trim();
  const { lane, cost, costs, priority, wait, retry } = args;
  const response = await fetch(client.proxyUrl(args["queue"]) + (args["path"] ?? ""), {
    method: args["method"] ?? "GET", body: args["body"] ?? null, signal,
    headers: { Authorization: `Bearer ${token}`, ...proxyHeaders({ lane, cost, costs, priority, wait, retry }) },
  });
  const problem = await problemOf(response);
  if (problem) throw problem;
  let body = "";
  let events = 0;
  const text = new TextDecoder();
  for await (const chunk of response.body ?? []) {
    body += text.decode(chunk, { stream: true });
    while (args["ack"] && body.split("\n\n").length - 1 > events) {
      events++;
      await fetch(args["ack"], { signal });
    }
  }
  const { status, headers } = response;
  return {
    status, body, waited: Number(headers.get("penstock-waited")) / 1000, retry_after: headers.get("retry-after") ?? "",
  };
}

const agent = new Agent({ keepAlive: true });

/** bareTurn takes a turn without the client, for the benchmarks. */
function bareTurn(url: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const bare = httpRequest(url, { method: "POST", agent, headers: { "Content-Type": "application/json" } }, (response) => {
      response.on("error", reject).on("end", resolve).resume();
    });
    bare.on("error", reject).end('{"wait":"30s"}');
  });
}

/** payloadsOf returns the raw payloads of a request, so that 64-bit numbers reach the server unchanged. */
function payloadsOf(line: string): (string | undefined)[] {
  const args = parts(line).get("args");
  if (!args) return [];
  const { job, jobs } = Object.fromEntries(parts(args)) as { job?: string; jobs?: string };
  return (jobs ? [...parts(jobs).values()] : job ? [job] : []).map((one) => (one.startsWith("{") ? parts(one).get("payload") : undefined));
}

const input = createInterface({ input: process.stdin });
input.on("line", (line) => {
  if (line.trim() === "") return;
  const request = JSON.parse(line) as { n: number; call: string; args?: Args; options?: Args };
  const control = new AbortController();
  under.set(request.n, control);
  const signal = AbortSignal.any([control.signal, forever.signal]);
  Promise.resolve()
    .then(() => call(request.call, request.args ?? {}, request.options ?? {}, signal, payloadsOf(line)))
    .then((ok) => ({ n: request.n, ok: ok ?? {} }), (error: unknown) => ({ n: request.n, error: errorOf(error) }))
    .then((answer) => {
      under.delete(request.n);
      process.stdout.write(JSON.stringify(answer) + "\n");
    });
});
input.on("close", () => {
  // Answers that are still in the pipe must arrive.
  process.stdout.write("", () => process.exit(0));
});
