import { Penstock } from "penstock";

const penstock = new Penstock();
await penstock.putQueue("hello", { rate: "14/s", pull: true });

const job = await penstock.append("hello", { payload: { to: "a@example.com" } });
console.log(`${job.id} is ${job.state} at position ${job.position}`);

const worker = penstock.worker("hello", (job) => console.log("sending", job.payload));
worker.start();

const { state } = await penstock.wait("hello", job.id);
console.log(`${job.id} is ${state}`);

await worker.stop();
penstock.close();
