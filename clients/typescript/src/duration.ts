import { Misuse } from "./errors.js";

/** Duration is a number of seconds, or text such as "250ms", "30s", "10m", "2h" or "1h30m". */
export type Duration = number | string;

const units: Record<string, number> = { ms: 0.001, s: 1, m: 60, h: 3600, d: 86_400 };

/** seconds returns a duration as a number of seconds. field names it in the error about an invalid one. */
export function seconds(duration: Duration, field = "duration"): number {
  if (typeof duration === "number") {
    if (Number.isFinite(duration) && duration >= 0) return duration;
  } else if (/^(\d+(\.\d+)?(ms|[smhd]))+$/.test(duration)) {
    let sum = 0;
    for (const [, number, unit] of duration.matchAll(/([\d.]+)(ms|[smhd])/g)) sum += Number(number) * units[unit!]!;
    return sum;
  }
  throw new Misuse(`${field}: ${JSON.stringify(duration)} is not a duration; use seconds, or text such as "30s"`, field);
}

/** text returns a duration in the form of the API, in whole milliseconds. */
export function text(duration: Duration, field?: string): string {
  return `${Math.round(seconds(duration, field) * 1000)}ms`;
}

/** sleep waits for a number of seconds. It rejects with the signal's reason if the signal aborts first. */
export function sleep(duration: number, signal?: AbortSignal | null): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, duration * 1000);
    const stop = () => {
      clearTimeout(timer);
      reject(signal!.reason);
    };
    signal?.addEventListener("abort", stop, { once: true });
  });
}
