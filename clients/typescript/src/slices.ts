/** parts returns the raw text of each member of a JSON object, or element of an array by its index. The text must be valid. */
export function parts(text: string): Map<string, string> {
  const found = new Map<string, string>();
  let key: string | undefined;
  let [depth, from, end] = [0, -1, 0];
  for (const match of text.matchAll(/"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\]:,]|[^\s{}[\]:,"]+/g)) {
    const token = match[0];
    if (token === "}" || token === "]") depth--;
    if (depth === 0 || (depth === 1 && token === ",")) {
      if (from >= 0) found.set(key ?? String(found.size), text.slice(from, end));
      [key, from] = [undefined, -1];
    } else if (depth === 1 && token === ":") {
      [key, from] = [JSON.parse(text.slice(from, end)) as string, -1];
    } else if (from < 0) from = match.index;
    if (token === "{" || token === "[") depth++;
    end = match.index + token.length;
  }
  return found;
}
