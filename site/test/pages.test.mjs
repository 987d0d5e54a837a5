// The generated pages, without a browser.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, before, test } from 'node:test'

import { openapiPages } from '../scripts/openapi.mjs'
import { site, writePages } from '../scripts/pages.mjs'
import { problemPages } from '../scripts/problems.mjs'
import { description, escape, section, slugify } from '../scripts/text.mjs'

const root = join(site, '..')
const options = { version: 'v0.0.1', ref: 'v0.0.1', base: '/b/', top: '/b/', released: [] }
let temporary
before(() => { temporary = mkdtempSync(join(tmpdir(), 'penstock-pages-')) })
after(() => rmSync(temporary, { recursive: true, force: true }))

// repository makes a small one: what the generator reads from the real one, and some pages.
function repository(name, pages) {
  const at = join(temporary, name)
  const files = ['internal/api/openapi.json', 'internal/api/httpio/reasons.go', 'internal/api/httpio/problem.go',
    'queue/outcomes.go', 'internal/console/assets/icon.svg', 'README.md', 'docs/api.md']
  const all = Object.fromEntries(files.map((file) => [file, readFileSync(join(root, file), 'utf8')]))
  // Only the text of these pages counts here, not where their links lead.
  for (const file of ['README.md', 'docs/api.md']) all[file] = all[file].replace(/\]\((?!#)[^)]+\)/g, '](https://example.com)')
  all['docs/design.md'] = '# Design\n\nAfter this page you know.\n'
  for (const [file, text] of Object.entries({ ...all, ...pages })) {
    mkdirSync(dirname(join(at, file)), { recursive: true })
    writeFileSync(join(at, file), text)
  }
  return at
}

test('a new page appears by itself, under its heading, with its links rewritten', () => {
  const at = repository('new', {
    'docs/tutorials/first.md': '# My `first` page\n\nAfter this page you know [it](../design.md#x), [code](../../queue/outcomes.go) and\n' +
      '[more](https://example.com).\n\n<!-- not run: why -->\n```sh name\n[a](none.md)\n```\n',
    'docs/other/page.md': '# Other\n\nText.\n',
  })
  const out = join(temporary, 'new-out')
  writePages(at, out, options)
  const made = JSON.parse(readFileSync(join(out, 'site.json'), 'utf8'))
  assert.deepEqual(made.sidebar[0], { text: 'Tutorials', items: [{ text: 'My first page', link: '/tutorials/first' }] })
  assert.ok(made.sidebar.some(({ text, items }) => text === 'Reference: more' && items.some(({ link }) => link === '/other/page')))
  const page = readFileSync(join(out, 'pages/tutorials/first.md'), 'utf8')
  assert.ok(page.includes('[it](../design.md#x), [code](https://github.com/penstock/penstock/blob/v0.0.1/queue/outcomes.go)'))
  assert.ok(page.includes('```sh\n[a](none.md)\n```') && !page.includes('not run'))
  assert.ok(readFileSync(join(out, 'public/tutorials/first.md'), 'utf8').startsWith('# My `first` page'))
  assert.match(readFileSync(join(out, 'public/llms.txt'), 'utf8'),
    /^# Penstock\n\n> A job queue with[\s\S]+## Tutorials\n\n- \[My first page\]\(\/b\/tutorials\/first\.md\): After this page/)
})

test('headings that skip a level are promoted, so that none does', () => {
  const at = repository('levels', { 'docs/page.md': '# P\n\n## A\n\n#### b\n\n#### c\n\n## D\n\n### E\n\n#### f\n' })
  const out = join(temporary, 'levels-out')
  writePages(at, out, options)
  const text = readFileSync(join(out, 'public/page.md'), 'utf8')
  assert.deepEqual(text.match(/^#+ .+$/gm), ['# P', '## A', '### b', '### c', '## D', '### E', '#### f'])
})

test('a link to a missing file or page fails the build', () => {
  for (const [name, target] of [['missing', 'none.md'], ['source', '../queue/none.go']]) {
    const at = repository(name, { 'docs/page.md': `# Page\n\n[x](${target})\n` })
    assert.throws(() => writePages(at, join(temporary, name + '-out'), options), new RegExp(`docs/page.md: link to ${target}`))
  }
})

test('a page without a heading fails the build', () => {
  const at = repository('heading', { 'docs/page.md': 'Text.\n' })
  assert.throws(() => writePages(at, join(temporary, 'heading-out'), options), /docs\/page.md: no heading of level 1/)
})

const openapi = () => JSON.parse(readFileSync(join(root, 'internal/api/openapi.json'), 'utf8'))

test('every operation, schema and error code has its place in the reference', () => {
  const pages = openapiPages(openapi())
  const text = pages.map((page) => page.text).join('\n')
  for (const item of Object.values(openapi().paths)) {
    for (const { operationId } of Object.values(item)) if (operationId) assert.ok(text.includes(`{:#${operationId}}`), operationId)
  }
  for (const name of Object.keys(openapi().components.schemas)) assert.ok(text.includes(`## ${name} {:#${name}}`), name)
  const problems = problemPages(root, openapi()).map((page) => page.path)
  assert.deepEqual(problems.slice(1), openapi().components.schemas.Reason.enum.map((code) => `problems/${code}.md`))
})

test('an error code that only one of the sources has fails the build', () => {
  const more = openapi()
  more.components.schemas.Reason.enum.push('nonesuch')
  assert.throws(() => problemPages(root, more), /error code nonesuch/)
  const fewer = openapi()
  fewer.components.schemas.Reason.enum.pop()
  assert.throws(() => problemPages(root, fewer), /the Go code has \d+ error codes, openapi.json has \d+/)
})

test('the type of a problem is the URL of its page', () => {
  const { homepage } = JSON.parse(readFileSync(join(site, 'package.json'), 'utf8'))
  for (const { path, title, text } of problemPages(root, openapi()).slice(1)) {
    const { type } = JSON.parse(/```json\n([\s\S]+?)```/.exec(text)[1])
    assert.equal(type, homepage + path.replace(/\.md$/, ''), title)
  }
  const problem = (base) => ({ 'internal/api/httpio/problem.go': `const ProblemBase = "${base}"` })
  const other = repository('type', problem('https://example.com/docs/problems/'))
  assert.ok(problemPages(other, openapi()).at(-1).text.includes('"type": "https://example.com/docs/problems/'))
  for (const base of ['https://example.com/errors/', 'https://example.com/docs/api.md#']) {
    const bad = repository('bad-type', problem(base))
    assert.throws(() => problemPages(bad, openapi()), /the site has the pages of error codes under \/problems\//)
  }
  assert.throws(() => problemPages(repository('no-type', { 'internal/api/httpio/problem.go': 'package httpio' }), openapi()),
    /no constant ProblemBase/)
})

test('a reference that leads nowhere fails the build', () => {
  const broken = openapi()
  broken.components.schemas.Job.properties.lane = { $ref: '#/components/schemas/None' }
  assert.throws(() => openapiPages(broken), /schemas\/None leads nowhere/)
})

test('anchors are those of GitHub', () => {
  assert.equal(slugify('The store\'s URL'), 'the-stores-url')
  assert.equal(slugify('unknown_queue'), 'unknown_queue')
  assert.equal(slugify('A rule: `take`'), 'a-rule-take')
})

test('text of the OpenAPI document is no Markdown', () => {
  assert.equal(escape('a | b <c> *d* `e` [f](g)'), 'a \\| b \\<c\\> \\*d\\* \\`e\\` \\[f\\](g)')
})

test('sections and descriptions', () => {
  const text = '# T\n\nAfter this page you can do it. And more.\n\n## A\n\none\n\n```sh\n# not a heading\n```\n\n### B\n\ntwo\n\n## C\n'
  assert.equal(section(text, 2, 'A', 'p'), 'one\n\n```sh\n# not a heading\n```\n\n### B\n\ntwo')
  assert.equal(description(text), 'After this page you can do it. And more.')
  assert.throws(() => section(text, 2, 'None', 'p.md'), /p.md: no heading "None"/)
})
