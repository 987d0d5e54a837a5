// A worker that calls a provider with the jobs of llm.batch (see llm.yaml), and reports what each has used.
//
//     PENSTOCK_URL=... PENSTOCK_TOKEN=... OPENAI_API_KEY=... node examples/llm_worker.mjs
import { dead, Penstock, throttled } from "penstock";

const url = `${process.env.OPENAI_BASE_URL ?? "https://api.openai.com/v1"}/chat/completions`;
const headers = { authorization: `Bearer ${process.env.OPENAI_API_KEY}`, "content-type": "application/json" };
const penstock = new Penstock({ on: (event) => event.error && console.error(event.kind, event.id ?? "", event.error) });

const worker = penstock.worker("llm.batch", async (job) => { // its payload is a request for a chat completion
  const response = await fetch(url, { method: "POST", headers, body: job.payloadText, signal: job.signal });
  if (response.status === 429) {
    job.reportActual({ tokens: 0 });
    return throttled(Number(response.headers.get("retry-after") ?? 0)); // the queue stops
  }
  if (response.status >= 400 && response.status < 500) return dead(`the provider answered ${response.status}`);
  if (!response.ok) throw new Error(`the provider answered ${response.status}`); // a retry
  const { usage } = await response.json();
  job.reportActual({ tokens: usage.total_tokens });
  console.log(job.id, usage.total_tokens, "tokens");
}, { concurrency: 50 });

await worker.run(); // until SIGTERM or SIGINT
penstock.close();
