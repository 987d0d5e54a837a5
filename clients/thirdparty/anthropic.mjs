// Calls Anthropic's API with the package @anthropic-ai/sdk. Usage: node anthropic.mjs [CALLS [whole|stream|mixed]]
// The package reads the base URL and the key from ANTHROPIC_BASE_URL and ANTHROPIC_API_KEY. Nothing here knows Penstock.
import Anthropic from "@anthropic-ai/sdk";
import { run, watchedFetch } from "./report.mjs";

const options = { fetch: watchedFetch };
if (process.env.MAX_RETRIES) options.maxRetries = Number(process.env.MAX_RETRIES);
const client = new Anthropic(options);
const question = { model: "sim-small", messages: [{ role: "user", content: "hello" }], max_tokens: 500 };
const total = (usage) => usage.input_tokens + usage.output_tokens;

await run(
  async () => {
    const answer = await client.messages.create(question);
    return { pieces: answer.content.length, tokens: total(answer.usage) };
  },
  async () => {
    let pieces = 0;
    const answer = client.messages.stream(question).on("text", () => pieces++);
    return { tokens: total((await answer.finalMessage()).usage), pieces };
  },
);
