import type { Penstock, CallOptions } from "./client.js";
import { sleep } from "./duration.js";
import { Refused, retryAfterOf, Unreachable } from "./errors.js";
import { linesOf } from "./http.js";
import { cancelled, Limit, mayRetry, pause } from "./retry.js";
import type { EventKind, QueueEvent } from "./types.js";

/** StreamEvent is an event of a queue. Its kind determines its data. */
export interface StreamEvent {
  /** Position from which a stream can continue; not all events have one. */
  id?: string;
  kind: EventKind | (string & {});
  data: QueueEvent;
}

export interface EventOptions extends Pick<CallOptions, "signal" | "traceparent"> {
  /** Begin after the event with this id. */
  after?: string;
}

// An idle stream gets a comment every 15 s.
const silence = 45;

/** events yields the events of one queue, or of all queues, for ever. It reconnects after the last event it has seen. */
export async function* events(client: Penstock, queue?: string, options: EventOptions = {}): AsyncGenerator<StreamEvent, void, undefined> {
  const { signal } = options;
  const path = queue === undefined ? "/v1/events" : `/v1/queues/${encodeURIComponent(queue)}/events`;
  let after = options.after;
  for (let failed = 0; ;) {
    const limit = new Limit(signal, silence, () => new Unreachable(`events: silent for ${silence} s`));
    try {
      const headers = { Accept: "text/event-stream", ...(after && { "Last-Event-ID": after }) };
      const answer = await client.transport.open({
        call: "events", method: "GET", path, headers, idempotent: true, timeout: silence, queue, traceparent: options.traceparent,
      }, limit.signal);
      let event: { id?: string; kind: string; data: string } = { kind: "", data: "" };
      for await (const lines of linesOf(answer, limit.signal)) {
        limit.refresh();
        for (const line of lines.map((one) => one.replace(/\r$/, ""))) {
          const [, field, value] = /^([^:]*):? ?(.*)$/s.exec(line)!;
          if (field === "id") event.id = value!;
          else if (field === "event") event.kind = value!;
          else if (field === "data") event.data += (event.data && "\n") + value!;
          else if (line === "" && event.kind) {
            const { id, kind } = event;
            const data = decode(event.data);
            event = { kind: "", data: "" };
            if (kind === "end") {
              const problem = data as unknown as Record<string, unknown>;
              throw new Refused(Number(problem["status"]) || 503, problem, retryAfterOf(problem["retry_after_ms"]));
            }
            failed = 0;
            if (id) after = id;
            yield { ...(id && { id }), kind, data };
          }
        }
      }
      throw new Unreachable("the event stream ended");
    } catch (error) {
      const again = mayRetry(error) || (error instanceof Refused && error.status === 401 && failed === 0);
      if (!again || signal?.aborted) throw error;
      const wait = Math.max(0.1, pause(failed++, error instanceof Refused ? error.retryAfter : 0));
      client.on({ kind: "reconnect", call: "events", error, attempt: failed, pause: wait, queue });
      await sleep(wait, signal).catch(() => { throw cancelled(signal!); });
    } finally {
      limit.end();
    }
  }
}

function decode(text: string): QueueEvent {
  try {
    return JSON.parse(text) as QueueEvent;
  } catch (error) {
    throw new Unreachable("an event is not JSON", { cause: error });
  }
}
