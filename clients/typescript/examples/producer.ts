import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import { Penstock } from "penstock";

const penstock = new Penstock();
const lines = createInterface({ input: createReadStream(process.argv[2] ?? "payloads.ndjson") });

async function* jobs() {
  let number = 0;
  for await (const line of lines) yield { id: `import-${++number}`, payloadJson: line };
}

let accepted = 0;
for await (const result of penstock.appendStream("hello", jobs(), { inFlight: 1000, retryFor: "5m" })) {
  if (result.error) console.error(result.id, result.error.message);
  else accepted++;
}
console.log(`${accepted} jobs accepted`);
penstock.close();
