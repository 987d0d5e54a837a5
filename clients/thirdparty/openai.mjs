// Calls OpenAI's API with the package openai. Usage: node openai.mjs [CALLS [whole|stream|mixed]]
// The package reads the base URL and the key from OPENAI_BASE_URL and OPENAI_API_KEY, and the most tokens of an
// answer from MAX_COMPLETION_TOKENS. Nothing here knows Penstock.
import OpenAI from "openai";
import { run, watchedFetch } from "./report.mjs";

const options = { fetch: watchedFetch };
if (process.env.MAX_RETRIES) options.maxRetries = Number(process.env.MAX_RETRIES);
const client = new OpenAI(options);
const question = {
  model: "sim-small", messages: [{ role: "user", content: "hello" }],
  max_completion_tokens: Number(process.env.MAX_COMPLETION_TOKENS ?? 500),
};

await run(
  async () => {
    const answer = await client.chat.completions.create(question);
    return { pieces: answer.choices[0].message.content ? 1 : 0, tokens: answer.usage.total_tokens };
  },
  async () => {
    const answer = await client.chat.completions.create({
      ...question, stream: true, stream_options: { include_usage: true },
    });
    let [pieces, tokens] = [0, 0];
    for await (const chunk of answer) {
      if (chunk.choices[0]?.delta.content) pieces++;
      tokens = chunk.usage?.total_tokens ?? tokens;
    }
    return { pieces, tokens };
  },
);
