// Serves a built site on loopback and inspects every page in Chromium.
import { createServer } from 'node:http'
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import puppeteer from 'puppeteer-core'
import sirv from 'sirv'

export const widths = [1440, 390]
export const themes = ['light', 'dark']
const maxBytes = 2_000_000
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

// serve serves a directory under a path such as /penstock/, without compression.
export async function serve(directory, base) {
  const files = sirv(directory, { dev: true, extensions: ['html'] })
  const server = createServer((request, response) => {
    const missing = () => {
      response.statusCode = 404
      response.end()
    }
    if (!request.url.startsWith(base)) return missing()
    request.url = '/' + request.url.slice(base.length)
    files(request, response, missing)
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  const origin = `http://127.0.0.1:${server.address().port}`
  return { origin, root: origin + base, close: () => new Promise((resolve) => {
    server.close(resolve)
    server.closeAllConnections()
  }) }
}

export function launch() {
  return puppeteer.launch({
    executablePath: process.env.PENSTOCK_CHROMIUM || '/usr/bin/chromium',
    // Without updates and the like, so that a request to another host is the site's.
    args: ['--disable-background-networking', ...process.getuid?.() === 0 ? ['--no-sandbox'] : []],
  })
}

// pathsOf returns the paths of all pages, without .html and index.
export function pathsOf(directory) {
  return readdirSync(directory, { recursive: true }).filter((name) => name.endsWith('.html')).map((name) =>
    name.replace(/\.html$/, '').replace(/(^|\/)index$/, '$1')).sort()
}

// watch records what a page must not do, and what it transfers.
export async function watch(page, origin) {
  const seen = { faults: [], bytes: 0 }
  const session = await page.createCDPSession()
  await session.send('Network.enable')
  session.on('Network.loadingFinished', (event) => { seen.bytes += event.encodedDataLength })
  page.on('request', (request) => {
    const url = request.url()
    if (!/^(data|blob):/.test(url) && new URL(url).origin !== origin) seen.faults.push(`request to another host: ${url}`)
  })
  page.on('response', (response) => {
    if (response.status() >= 400) seen.faults.push(`status ${response.status()}: ${response.url()}`)
  })
  page.on('requestfailed', (request) => {
    if (request.failure()?.errorText !== 'net::ERR_ABORTED') seen.faults.push(`failed request: ${request.url()}`)
  })
  page.on('console', (message) => {
    if (message.type() === 'error') seen.faults.push(`console error: ${message.text()}`)
  })
  page.on('pageerror', (error) => seen.faults.push(`script error: ${error.message}`))
  return seen
}

// setTheme switches the theme as the system does, and waits until the page has it.
export async function setTheme(page, theme) {
  await page.emulateMediaFeatures([
    { name: 'prefers-color-scheme', value: theme }, { name: 'prefers-reduced-motion', value: 'reduce' },
  ])
  if (page.url() === 'about:blank') return
  await page.waitForFunction((dark) => document.documentElement.classList.contains('dark') === dark ||
    !document.querySelector('#app'), {}, theme === 'dark')
}

// violations returns what axe-core finds.
export async function violations(page) {
  await page.addStyleTag({ content: '*, ::before, ::after { transition: none !important; animation: none !important }' })
  await page.evaluate(axe)
  const result = await page.evaluate(() => globalThis.axe.run({ resultTypes: ['violations'] }))
  return result.violations.map(({ id, help, nodes }) =>
    `axe ${id}: ${help} (${nodes.length}): ${nodes[0].target.join(' ')} ${nodes[0].any[0]?.message ?? ''}`)
}

// inspect visits a page at each width and in each theme. It returns the faults, the bytes, the links and the anchors.
export async function inspect(browser, site, path, { shots } = {}) {
  const result = { path, faults: [], bytes: 0, links: [], ids: [] }
  for (const width of widths) {
    const page = await browser.newPage()
    const seen = await watch(page, site.origin)
    await page.setCacheEnabled(false)
    await page.setViewport({ width, height: 900 })
    await setTheme(page, themes[0])
    await page.goto(site.root + path, { waitUntil: 'load' })
    // What loads only when it comes into view is part of the page, too.
    await page.evaluate(() => window.scrollTo(0, document.documentElement.scrollHeight))
    await page.waitForNetworkIdle({ idleTime: 300 })
    await page.evaluate(() => window.scrollTo(0, 0))
    for (const theme of themes) {
      await setTheme(page, theme)
      const about = `${width} px, ${theme}: `
      result.faults.push(...(await violations(page)).map((text) => about + text))
      if (shots) await page.screenshot({ path: join(shots, `${path.replaceAll('/', '-') || 'index'}-${width}-${theme}.png`) })
    }
    const found = await page.evaluate(() => ({
      wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
      links: [...document.querySelectorAll('a[href]')].map((a) => a.href),
      versions: [...document.querySelectorAll('.versions option')].map((o) => new URL(o.value, location.href).href),
      ids: [...document.querySelectorAll('[id]')].map((element) => element.id),
    }))
    if (found.wide > 0) result.faults.push(`${width} px: ${found.wide} px too wide`)
    if (seen.bytes > maxBytes) result.faults.push(`${width} px: ${seen.bytes} bytes transferred, more than ${maxBytes}`)
    result.faults.push(...seen.faults.map((text) => `${width} px: ${text}`))
    result.bytes = Math.max(result.bytes, seen.bytes)
    result.links = [...new Set([...result.links, ...found.links, ...found.versions])]
    result.ids = [...new Set([...result.ids, ...found.ids])]
    await page.close()
  }
  return result
}

// brokenLinks returns the links within the site that lead nowhere. results are those of all pages.
export function brokenLinks(directory, site, results) {
  const ids = new Map(results.map((result) => [result.path, new Set(result.ids)]))
  return results.flatMap(({ path, links }) => links.map((link) => fault(directory, site, ids, path, link)).filter(Boolean))
}

function fault(directory, site, ids, path, link) {
  const url = new URL(link)
  if (url.origin !== site.origin) return undefined
  const base = new URL(site.root).pathname
  if (!url.pathname.startsWith(base)) return `/${path}: link outside the site: ${link}`
  const target = decodeURIComponent(url.pathname.slice(base.length))
  const anchor = decodeURIComponent(url.hash.slice(1))
  const page = target.replace(/\.html$/, '').replace(/(^|\/)index$/, '$1')
  if (ids.has(page)) {
    return anchor && !ids.get(page).has(anchor) ? `/${path}: no anchor #${anchor} on /${page}` : undefined
  }
  return target && existsSync(join(directory, target)) ? undefined : `/${path}: broken link to /${target}`
}

// brokenCopies returns the links of llms.txt and of the Markdown copies that lead nowhere, and pages without a copy.
export function brokenCopies(directory, site, results) {
  const copies = readdirSync(directory, { recursive: true }).filter((name) => /(\.md|llms\.txt)$/.test(name))
  const ids = new Map(results.map((result) => [result.path, new Set(result.ids)]))
  const faults = copies.flatMap((name) => {
    const text = readFileSync(join(directory, name), 'utf8').replace(/^ *```[\s\S]*?^ *```/gm, '').replace(/`[^`\n]*`/g, '')
    return [...text.matchAll(/\]\(([^)\s]+)\)/g)].map(([, link]) => {
      const url = new URL(link, site.root + name)
      if (url.origin !== site.origin) return undefined
      const html = url.href.replace(/\.md(#|$)/, '$1')
      return fault(directory, site, new Map(), name, url.href.replace(/#.*/, '')) ??
        (url.hash ? fault(directory, site, ids, name, html) : undefined)
    }).filter(Boolean)
  })
  const missing = results.filter(({ path }) => !/(^|\/)404$/.test(path) && !existsSync(join(directory, path.replace(/(^|\/)$/, '$1index') + '.md')))
  return [...faults, ...missing.map(({ path }) => `/${path}: no Markdown copy`)]
}
