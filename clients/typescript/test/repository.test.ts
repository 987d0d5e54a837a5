import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { version } from "penstock";

const root = new URL("../../", import.meta.url); // from dist/test
const read = (path: string) => readFileSync(new URL(path, root), "utf8");

test("types.ts is up to date with openapi.json", async () => {
  const { fresh } = await import(new URL("scripts/types.mjs", root).href) as { fresh: () => string };
  assert.equal(read("src/types.ts"), fresh(), "run: npm run types");
});

test("the guide shows the examples exactly, in at most 620 words", () => {
  const page = read("../../docs/typescript.md");
  const blocks = [...page.matchAll(/```js\n([\s\S]*?)```/g)].map((match) => match[1]);
  const examples = readdirSync(new URL("examples/", root)).map((name) => read(`examples/${name}`));
  assert.deepEqual([...blocks].sort(), examples.sort());
  assert.ok(page.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)).length <= 620);
  assert.match(page, /^# .*\n\nAfter this page you /);
});

test("the version is that of the package", () => {
  assert.equal(version, JSON.parse(read("package.json")).version);
});
