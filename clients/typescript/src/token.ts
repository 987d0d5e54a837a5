import { readFile, stat } from "node:fs/promises";
import { Misuse } from "./errors.js";

/** TokenSource is a token, a function that returns one, or a file, which is read again when it changes. */
export type TokenSource = string | (() => string | Promise<string>) | { file: string };

/** Tokens returns the current token of a source. */
export class Tokens {
  private known: string | undefined;
  private stamp = "";

  constructor(private readonly source: TokenSource | undefined) {}

  /** changeable reports whether asking again can yield another token. */
  get changeable(): boolean {
    return this.source !== undefined && typeof this.source !== "string";
  }

  /** get returns the token, or undefined without a source. With again, it ignores what it knows. */
  async get(again = false): Promise<string | undefined> {
    const source = this.source;
    if (source === undefined) return undefined;
    if (typeof source === "string") return checked(source);
    if (typeof source === "function") {
      if (again || this.known === undefined) this.known = checked(await source());
      return this.known;
    }
    try {
      const { mtimeMs, ino, size } = await stat(source.file);
      const stamp = `${mtimeMs} ${ino} ${size}`;
      if (again || this.known === undefined || stamp !== this.stamp) {
        this.known = checked((await readFile(source.file, "utf8")).trim());
        this.stamp = stamp;
      }
    } catch (error) {
      // A file that is being replaced must not fail a call whose token is known.
      if (this.known === undefined || again) {
        if (error instanceof Misuse) throw error;
        throw new Misuse(`token: the file ${source.file} cannot be read`, "token", { cause: error });
      }
    }
    return this.known;
  }
}

function checked(token: string): string {
  if (typeof token === "string" && /^[!-~]+$/.test(token)) return token;
  throw new Misuse("token: must be text without spaces", "token");
}

/** tokenFromEnvironment returns the token source that the environment names. */
export function tokenFromEnvironment(env: NodeJS.ProcessEnv = process.env): TokenSource | undefined {
  if (env["PENSTOCK_TOKEN"]) return env["PENSTOCK_TOKEN"];
  return env["PENSTOCK_TOKEN_FILE"] ? { file: env["PENSTOCK_TOKEN_FILE"] } : undefined;
}
