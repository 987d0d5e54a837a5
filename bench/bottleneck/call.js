// Calls a receiver at 50/s in all, together with other processes on the same Redis, until it is killed.
// Usage: node call.js REDIS_ADDRESS RECEIVER_URL SKEW_MS
import Bottleneck from "bottleneck";

const [address, receiver, skew] = process.argv.slice(2);
const [host, port] = address.split(":");
const now = Date.now;
Date.now = () => now() + Number(skew); // the clock of this process is wrong by so much

const limiter = new Bottleneck({
  id: "bench", minTime: 20, datastore: "ioredis", clientOptions: { host, port: Number(port) },
});
limiter.on("error", () => {});
for (;;) {
  await limiter.schedule(async () => (await fetch(receiver)).arrayBuffer()).catch(() => {});
}
