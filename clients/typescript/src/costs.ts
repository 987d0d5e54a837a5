import { Misuse } from "./errors.js";

/** Costs are amounts by unit, such as { tokens: 1800 }: whole numbers from 0 to 1,000,000,000. */
export type Costs = Record<string, number>;

const maxCost = 1_000_000_000;

/** checked returns costs that may be sent. */
export function checked(field: string, costs: Costs): Costs {
  if (typeof costs !== "object" || costs === null || Array.isArray(costs)) {
    throw new Misuse(`${field}: must be an object of numbers by unit, such as { tokens: 1800 }`, field);
  }
  for (const [unit, n] of Object.entries(costs)) {
    if (!Number.isInteger(n) || n < 0 || n > maxCost) {
      throw new Misuse(`${field}.${unit}: is ${n}, must be a whole number from 0 to ${maxCost}`, `${field}.${unit}`);
    }
  }
  return costs;
}
