import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { Penstock, type PenstockOptions } from "./client.js";
import { text, type Duration } from "./duration.js";
import { PenstockError } from "./errors.js";
import { parse } from "./http.js";

export interface StartOptions {
  /** With "virtual", advance can move the clock forward; in between it runs as usual. Default: the real clock. */
  clock?: "virtual";
  /** The program. Default: PENSTOCK_BIN, then penstock in the PATH. */
  bin?: string;
  /** Further arguments. */
  args?: string[];
  /** Time to wait until the server is ready. Default: 10 s. */
  timeout?: number;
  on?: PenstockOptions["on"];
}

/** TestServer is a server in memory, for tests. It ends with the process that started it. */
export interface TestServer extends AsyncDisposable {
  url: string;
  token: string;
  pid: number;
  /** A client with the server's address and token. */
  client: Penstock;
  /** Moves the virtual clock forward, waits for the work that becomes due, and returns the new time. */
  advance(by: Duration): Promise<Date>;
  stop(): Promise<void>;
}

/** startPenstock starts a server in memory on a free port. */
export async function startPenstock(options: StartOptions = {}): Promise<TestServer> {
  const bin = options.bin ?? (process.env["PENSTOCK_BIN"] || "penstock");
  const args = ["up", "--ephemeral", ...(options.clock ? ["--clock", options.clock] : []), ...(options.args ?? [])];
  const child = spawn(bin, args, { stdio: ["pipe", "pipe", "pipe"] });
  let log = "";
  child.stderr.setEncoding("utf8").on("data", (chunk: string) => (log = (log + chunk).slice(-4000)));
  child.stdin.on("error", () => {});
  const closed = new Promise<void>((resolve) => {
    child.once("close", () => resolve());
    child.once("error", () => resolve());
  });
  const limit = options.timeout ?? 10;
  const ready = await new Promise<{ url: string; token: string; pid: number }>((resolve, reject) => {
    const timer = setTimeout(() => {
      child.kill("SIGKILL");
      reject(new PenstockError(`${bin} was not ready within ${limit} s: ${log}`));
    }, limit * 1000);
    child.once("error", (error) => {
      clearTimeout(timer);
      reject(new PenstockError(`${bin} cannot be started; set PENSTOCK_BIN to the program`, { cause: error }));
    });
    child.once("exit", (code) => {
      clearTimeout(timer);
      reject(new PenstockError(`${bin} ended with status ${code}: ${log}`));
    });
    createInterface({ input: child.stdout }).once("line", (line) => {
      clearTimeout(timer);
      try {
        resolve(JSON.parse(line) as { url: string; token: string; pid: number });
      } catch (error) {
        child.kill("SIGKILL");
        reject(new PenstockError(`${bin} printed ${JSON.stringify(line)} instead of its address`, { cause: error }));
      }
    });
  });
  const client = new Penstock({ url: ready.url, token: ready.token, ...(options.on && { on: options.on }) });
  const stop = async () => {
    client.close();
    child.stdin.end();
    const timer = setTimeout(() => child.kill("SIGKILL"), 5000);
    await closed;
    clearTimeout(timer);
  };
  const advance = async (by: Duration) => {
    const json = { advance: text(by, "by") };
    const answer = await client.ask("advance", "POST", "/v1/clock", { json, idempotent: false, timeout: "5m" });
    return new Date(parse<{ now: string }>(answer).now);
  };
  return { ...ready, client, advance, stop, [Symbol.asyncDispose]: stop };
}
