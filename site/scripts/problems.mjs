// One page per error code, from the tables in the Go code and the explanations in docs/api.md.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { STATUS_CODES } from 'node:http'

import { code, plain, section } from './text.mjs'

const page = 'docs/api.md'

// statuses resolves the names of package net/http, such as StatusTooManyRequests.
const statuses = Object.fromEntries(Object.entries(STATUS_CODES).map(([status, text]) =>
  ['Status' + text.replace(/[^A-Za-z]/g, ''), Number(status)]))
statuses.StatusRequestEntityTooLarge = 413

// reasons reads the reasons in the order of the OpenAPI document: code, status and title.
function reasons(root, openapi) {
  const table = new Map()
  const requests = readFileSync(join(root, 'internal/api/httpio/reasons.go'), 'utf8')
  for (const [, reason, status, title] of requests.matchAll(/refusal\("(\w+)", http\.(Status\w+), "([^"]+)"\)/g)) {
    if (!statuses[status]) throw new Error(`internal/api/httpio/reasons.go: unknown status http.${status}`)
    table.set(reason, { status: statuses[status], title })
  }
  const jobs = readFileSync(join(root, 'queue/outcomes.go'), 'utf8')
  for (const [, reason, status, title] of jobs.matchAll(
    /\{name: "(\w+)",[^}]*?&Refusal\{[^}]*?Status: (\d+), Title: "([^"]+)"/g)) {
    table.set(reason, { status: Number(status), title })
  }
  const codes = openapi.components.schemas.Reason.enum
  for (const reason of codes) {
    if (!table.has(reason)) throw new Error(`error code ${reason}: found in openapi.json but not in the Go code`)
  }
  if (table.size !== codes.length) {
    throw new Error(`the Go code has ${table.size} error codes, openapi.json has ${codes.length}`)
  }
  return codes.map((reason) => ({ code: reason, ...table.get(reason) }))
}

// typeBase returns what precedes the code in the type of a problem: the URL below which this site has its page.
function typeBase(root) {
  const source = readFileSync(join(root, 'internal/api/httpio/problem.go'), 'utf8')
  const found = /\bProblemBase = "([^"]+)"/.exec(source)
  if (!found) throw new Error('internal/api/httpio/problem.go: no constant ProblemBase')
  const base = found[1]
  if (!new URL(base).pathname.endsWith('/problems/')) {
    throw new Error(`ProblemBase is ${base}, but the site has the pages of error codes under /problems/`)
  }
  return base
}

const again = (status) => status === 429 || status >= 500

// problemPages returns the pages, with an index of all codes.
export function problemPages(root, openapi) {
  const text = readFileSync(join(root, page), 'utf8')
  const base = typeBase(root)
  const all = reasons(root, openapi).map((reason) => {
    const explained = section(text, 4, reason.code, page)
    const [, status, meaning] = /^(\d{3})\. ([\s\S]+)$/.exec(explained) ?? []
    if (Number(status) !== reason.status) {
      throw new Error(`${page}: ${reason.code} begins with "${explained.slice(0, 4)}", its status is ${reason.status}`)
    }
    return { ...reason, meaning: meaning.trim() }
  })
  const pages = all.map((reason) => ({
    path: `problems/${reason.code}.md`, section: 'problems', source: page, linksFrom: page,
    title: reason.code, description: plain(reason.meaning), text: problemPage(reason, base),
  }))
  return [{
    path: 'problems/index.md', section: 'problems', linksFrom: page, source: 'internal/api/httpio/reasons.go',
    title: 'Error codes', description: 'All reasons for which the HTTP API refuses a request.', text: indexPage(all),
  }, ...pages]
}

function problemPage(reason, base) {
  const example = { type: base + reason.code, title: reason.title, status: reason.status, reason: reason.code }
  return `# ${code(reason.code)}

${reason.meaning}

| property | value |
|---|---|
| Status | ${reason.status} ${STATUS_CODES[reason.status]} |
| Title | ${reason.title} |
| Can a retry succeed? | ${again(reason.status) ? 'Yes, later' : 'Not without a change'} |

The answer is \`application/problem+json\` (RFC 9457). Programs check \`reason\`. Beside these members it has a \`detail\`,
and others if they apply: see the schema [Problem](@/openapi/schemas.md#Problem).

\`\`\`json
${JSON.stringify(example, null, 2)}
\`\`\`

See also [all error codes](@/problems/index.md) and [the HTTP API](api.md).
`
}

function indexPage(all) {
  const rows = all.toSorted((a, b) => a.status - b.status).map((reason) =>
    `| ${reason.status} | [${code(reason.code)}](@/problems/${reason.code}.md) | ${first(reason.meaning)} |`)
  return `# Error codes

Every refusal of the [HTTP API](api.md#refusals) has one of these codes as its \`reason\`. A retry can succeed later
after 429 and 5xx; after others, first change the request or what it refers to.

| status | code | meaning |
|---|---|---|
${rows.join('\n')}
`
}

// first returns the first sentence on one line.
function first(text) {
  return text.replace(/\s+/g, ' ').split(/(?<=[.!?]) (?=[A-Z])/)[0].replaceAll('|', '\\|')
}
