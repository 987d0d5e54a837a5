import { Penstock, Refused } from "penstock";

const penstock = new Penstock();
await penstock.putQueue("api-calls", { rate: "5/s", pull: true });
const fetch = penstock.pacedFetch("api-calls", { wait: "30s" });

const url = process.argv[2] ?? "https://example.com/";
try {
  for (let i = 1; i <= 3; i++) console.log(i, (await fetch(url)).status);
} catch (error) {
  if (!(error instanceof Refused) || error.reason !== "no_turn") throw error;
  console.log(`no turn within 30 s; try again in ${error.retryAfter} s`);
}
penstock.close();
