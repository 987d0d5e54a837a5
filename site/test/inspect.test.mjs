// Each kind of fault on a page is found: the checks of check.mjs can fail.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, before, test } from 'node:test'

import { brokenCopies, brokenLinks, inspect, launch, pathsOf, serve } from './inspect.mjs'

const page = (body, head = '') => `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Page</title>
<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">${head}</head>
<body><main><h1>Page</h1>${body}</main></body></html>`

// The body of each faulty page, and what the inspection says.
const faulty = {
  'foreign': [page('<p>x</p>', '<link rel="stylesheet" href="http://127.0.0.1:9/x.css">'), /request to another host: http:\/\/127\.0\.0\.1:9/],
  'script-error': [page('<script>throw new Error("oops")</script>'), /script error: oops/],
  'console-error': [page('<script>console.error("oops")</script>'), /console error: oops/],
  'missing-file': [page('<script src="none.js"></script>'), /status 404: .*none\.js/],
  'wide': [page('<div style="width: 500px">wide</div>'), /^390 px: \d+ px too wide/],
  'image': [page('<img src="data:image/gif;base64,R0lGODlhAQABAAAAACw=">'), /axe image-alt/],
  'contrast': [page('<p style="color: #bbb; background: #fff">faint</p>'), /axe color-contrast/],
  'dark-contrast': [page('<style>@media (prefers-color-scheme: dark) { p { color: #555; background: #444 } }</style><p>faint</p>'),
    /^1440 px, dark: axe color-contrast/],
  'large': [page('<script src="large.js"></script>'), /\d+ bytes transferred, more than 2000000/],
}
const links = {
  'index': page('<a href="./none">x</a> <a href="./image#none">y</a> <a href="./image">z</a> <a href="https://example.com/">w</a>'),
}

let directory, site, browser, results
before(async () => {
  directory = mkdtempSync(join(tmpdir(), 'penstock-site-'))
  const write = (name, text) => {
    mkdirSync(dirname(join(directory, name)), { recursive: true })
    writeFileSync(join(directory, name), text)
  }
  for (const [name, [text]] of Object.entries(faulty)) {
    write(name + '.html', text)
    write(name + '.md', '# Page\n')
  }
  write('large.js', '//' + 'x'.repeat(2_000_000))
  write('index.html', links.index)
  write('good/index.html', page('<p id="here">x</p><a href="#here">y</a>'))
  write('good/index.md', '# Page\n\n[a](../image.md) [b](#none) [c](../none.md) `[d](e)` [f](./index.md#here)\n')
  site = await serve(directory, '/below/')
  browser = await launch()
  results = new Map()
  for (const path of pathsOf(directory)) results.set(path, await inspect(browser, site, path))
})
after(async () => {
  await browser?.close()
  await site?.close()
  rmSync(directory, { recursive: true, force: true })
})

for (const [name, [, said]] of Object.entries(faulty)) {
  test(`a faulty page is reported: ${name}`, () => {
    const { faults } = results.get(name)
    assert.ok(faults.some((text) => said.test(text.replace(/^(1440|390) px: (?!\d+ px)/, ''))) || faults.some((text) => said.test(text)),
      `${name}: ${faults.join('\n') || 'no fault'}`)
  })
}

test('a good page has no fault', () => assert.deepEqual(results.get('good/').faults, []))

test('broken links and anchors are reported, others are not', () =>
  assert.deepEqual(brokenLinks(directory, site, [...results.values()]),
    ['/: broken link to /none', '/: no anchor #none on /image']))

test('broken links of Markdown copies are reported, and missing copies', () =>
  assert.deepEqual(brokenCopies(directory, site, [...results.values()]), [
    '/good/index.md: no anchor #none on /good/', '/good/index.md: broken link to /none.md', '/: no Markdown copy',
  ]))
