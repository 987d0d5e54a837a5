import { dead, Penstock, retry } from "penstock";

const penstock = new Penstock({ on: (event) => console.error(event.kind, event.id ?? "", String(event.error ?? "")) });

const worker = penstock.worker("resize", async (job) => {
  const { image } = Object(job.payload);
  if (!image) return dead("the job names no image");
  const response = await fetch(image, { signal: job.signal }); // aborts when the lease is lost
  if (response.status === 404) return dead("the image does not exist");
  if (!response.ok) return retry("30s", `HTTP ${response.status}`);
  console.log(`${job.id}: ${(await response.arrayBuffer()).byteLength} bytes`);
}, { concurrency: 10 });

const { settled } = await worker.run(); // until SIGTERM or SIGINT
console.log(`${settled} jobs settled`);
penstock.close();
