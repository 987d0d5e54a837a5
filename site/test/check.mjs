// Checks the built site in dist: every page at 1440 and 390 px and in both themes, all links, the search and the
// simulator. Prints a line per page and a summary, and fails if there is any fault.
//
// Usage: node test/check.mjs [PATH...]. With paths, it only visits these pages, and checks nothing else.
//
// PENSTOCK_CHROMIUM names the browser; by default /usr/bin/chromium. BASE is the path that the site was built for.
// SCREENSHOTS names a directory for pictures of all pages.
import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

import { brokenCopies, brokenLinks, inspect, launch, pathsOf, serve } from './inspect.mjs'
import { menus, search, searchInVain, simulator } from './tasks.mjs'

const dist = fileURLToPath(new URL('../dist', import.meta.url))
const base = `/${(process.env.BASE ?? '').replace(/^\/|\/$/g, '')}/`.replace('//', '/')
const shots = process.env.SCREENSHOTS
const parallel = 2

if (!existsSync(join(dist, 'index.html'))) {
  console.error('dist has no built site: run npm run build first')
  process.exit(1)
}
if (shots) mkdirSync(shots, { recursive: true })

const site = await serve(dist, base)
// A browser each: pages behind another one are slowed down.
const browsers = await Promise.all(Array.from({ length: parallel }, launch))
const [browser] = browsers
const faults = []
const results = []

function report(about, found, more = '') {
  console.log(`${found.length ? 'FAIL' : 'ok  '} ${about}${more}`)
  for (const text of found) console.log(`     ${text}`)
  faults.push(...found)
}

try {
  const chosen = process.argv.slice(2).map((path) => path.replace(/^\//, ''))
  const rest = chosen.length ? [...chosen] : pathsOf(dist)
  await Promise.all(browsers.map(async (own) => {
    for (let path; (path = rest.shift()) !== undefined;) {
      const result = await inspect(own, site, path, { shots }).catch((error) => {
        throw new Error(`/${path} could not be inspected: ${error.message}`, { cause: error })
      })
      results.push(result)
      report('/' + path, result.faults, `  ${Math.round(result.bytes / 1000)} kB, ${result.links.length} links`)
    }
  }))
  if (!chosen.length) await checkAll()
} finally {
  await Promise.all(browsers.map((one) => one.close()))
  await site.close()
}

async function checkAll() {
  report('links and anchors', brokenLinks(dist, site, results))
  report('llms.txt and Markdown copies', brokenCopies(dist, site, results))
  for (const width of [1440, 390]) {
    report(`search at ${width} px`, await search(browser, site, 'unknown_queue', 'problems/unknown_queue', width))
    report(`simulator at ${width} px`, await simulator(browser, site, width, shots))
  }
  report('search without results', await searchInVain(browser, site, 'xqzvwkjh'))
  report('menus at 390 px', await menus(browser, site))
}

const links = results.reduce((sum, result) => sum + result.links.length, 0)
const largest = results.reduce((a, b) => a.bytes > b.bytes ? a : b)
console.log(`${results.length} pages, each at 1440 and 390 px in light and dark; ${links} links; ` +
  `largest page /${largest.path} with ${Math.round(largest.bytes / 1000)} kB; ${faults.length} faults`)
process.exit(faults.length ? 1 : 0)
