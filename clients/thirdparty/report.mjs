// What the programs of this directory have in common: they print one line of JSON per call.

const [calls, mode] = [Number(process.argv[2] ?? 3), process.argv[3] ?? "mixed"];

let statuses = [];

/** Remembers the statuses of all answers, also of those that the library retries. */
export async function watchedFetch(...args) {
  const answer = await fetch(...args);
  statuses.push(answer.status);
  return answer;
}

/**
 * Makes the calls one after the other; 0 calls is without end. The modes are whole, stream and mixed.
 * `whole` and `stream` return the number of pieces of the answer and of its tokens.
 */
export async function run(whole, stream) {
  for (let n = 0; calls === 0 || n < calls; n++) {
    const streamed = mode === "stream" || (mode === "mixed" && n % 2 === 1);
    const line = { stream: streamed };
    const began = performance.now();
    statuses = [];
    try {
      Object.assign(line, await (streamed ? stream() : whole()));
    } catch (e) {
      line.error = e.constructor.name;
      line.message = e.message;
      line.status = e.status;
    }
    line.statuses = statuses;
    line.ms = Math.round(performance.now() - began);
    console.log(JSON.stringify(line));
  }
}
