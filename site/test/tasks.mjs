// What a visitor does: search, and use the simulator.
import { setTheme, violations, watch } from './inspect.mjs'

async function open(browser, site, path, width) {
  const page = await browser.newPage()
  const seen = await watch(page, site.origin)
  await page.setViewport({ width, height: 900 })
  await setTheme(page, 'light')
  await page.goto(site.root + path, { waitUntil: 'networkidle0' })
  return { page, faults: seen.faults }
}

// search returns the faults of a search for words, which must find a page first or among the first.
export async function search(browser, site, words, path, width) {
  const { page, faults } = await open(browser, site, '', width)
  await page.locator('.VPNavBarSearch button').click()
  await page.waitForSelector('#localsearch-input')
  await page.type('#localsearch-input', words)
  const found = await page.waitForSelector('#localsearch-list .result', { timeout: 10_000 }).catch(() => undefined)
  if (!found) {
    faults.push(`search for "${words}": no results`)
  } else {
    const results = () => page.$$eval('#localsearch-list .result', (list) => list.map((a) => new URL(a.href).pathname))
    const expected = new URL(site.root + path).pathname
    // The list grows while the words are typed.
    await page.waitForFunction((pathname) => [...document.querySelectorAll('#localsearch-list .result')]
      .some((a) => new URL(a.href).pathname === pathname), { timeout: 5_000 }, expected).catch(async () =>
      faults.push(`search for "${words}": ${path} is not among ${(await results()).join(', ')}`))
    for (const theme of ['light', 'dark']) {
      await setTheme(page, theme)
      faults.push(...(await violations(page)).map((text) => `search, ${theme}: ${text}`))
    }
    await page.click(`#localsearch-list .result[href*="${path}"]`)
    await page.waitForFunction((pathname) => location.pathname === pathname, { timeout: 5_000 }, expected)
      .catch(() => faults.push(`search for "${words}": a click on the result does not open ${path}`))
  }
  await page.close()
  return faults.map((text) => `${width} px: ${text}`)
}

// searchInVain returns a fault if nonsense has results.
export async function searchInVain(browser, site, words) {
  const { page, faults } = await open(browser, site, '', 1440)
  await page.locator('.VPNavBarSearch button').click()
  await page.waitForSelector('#localsearch-input')
  await page.type('#localsearch-input', words)
  await page.waitForSelector('.no-results', { timeout: 10_000 }).catch(() => faults.push(`search for "${words}" has results`))
  await page.close()
  return faults
}

// menus returns the faults that axe-core finds in the open menus of a narrow page.
export async function menus(browser, site) {
  const faults = []
  for (const [name, button, content] of [
    ['navigation', '.VPNavBarHamburger', '.VPNavScreen'], ['sidebar', '.VPLocalNav .menu', '.VPSidebar.open'],
  ]) {
    const { page, faults: seen } = await open(browser, site, 'api', 390)
    await page.locator(button).click()
    await page.waitForSelector(content)
    for (const theme of ['light', 'dark']) {
      await setTheme(page, theme)
      faults.push(...seen, ...(await violations(page)).map((text) => `390 px, ${theme}, open ${name}: ${text}`))
    }
    await page.close()
  }
  return faults
}

// lawFaults compares starts in ms with the law, in every window that begins with a start. All in microseconds.
function lawFaults(settings, starts) {
  const at = starts.map((ms) => Math.round(ms * 1000)).sort((a, b) => a - b)
  const faults = []
  at.forEach((from, i) => at.slice(i).forEach((until, j) => {
    const allowed = Math.ceil((until - from + 1 + settings.slack * 1000) * settings.rate / 1e6) + settings.burst - 1
    if (j + 1 > allowed) faults.push(`${j + 1} starts in ${until - from + 1} µs; the law allows ${allowed}`)
  }))
  return faults.slice(0, 1)
}

// simulator returns the faults of the simulator: it must draw what it computes, obey the keyboard, and keep the law.
export async function simulator(browser, site, width, shots) {
  const { page, faults } = await open(browser, site, 'simulator', width)
  const ready = await page.waitForSelector('.simulator[data-ready=true]', { timeout: 20_000 }).catch(() => undefined)
  if (!ready) return [...faults, `${width} px: the simulator did not start`]
  const drawn = () => page.evaluate(() => ({
    starts: (document.querySelector('.simulation .starts').getAttribute('d').match(/M/g) ?? []).length,
    refused: (document.querySelector('.simulation .refused').getAttribute('d').match(/M/g) ?? []).length,
    text: document.querySelector('.simulator .outcome').textContent.replace(/\s+/g, ' '),
  }))
  const before = await drawn()
  if (before.starts === 0) faults.push('it draws no starts')
  await page.focus('#sim-rate')
  for (let i = 0; i < 5; i++) await page.keyboard.press('ArrowRight')
  const after = await drawn()
  if (after.starts <= before.starts) faults.push(`five steps more of the rate: ${after.starts} starts, before ${before.starts}`)
  for (const settings of samples()) {
    await page.evaluate((values) => {
      for (const [name, value] of Object.entries(values)) {
        const control = document.querySelector(`#sim-${name}`)
        control.value = value
        control.dispatchEvent(new Event(name === 'pattern' ? 'change' : 'input', { bubbles: true }))
      }
    }, settings)
    const result = await page.evaluate((values) => globalThis.penstockSimulate({ ...values, seed: 1 }), settings)
    const shown = await drawn()
    const about = JSON.stringify(settings)
    if (result.error) faults.push(`${about}: ${result.error}`)
    if (shown.starts !== result.starts.length || shown.refused !== result.refused.length) {
      faults.push(`${about}: it draws ${shown.starts} starts and ${shown.refused} refusals, ` +
        `of ${result.starts.length} and ${result.refused.length}`)
    }
    faults.push(...lawFaults(settings, result.starts).map((text) => `${about}: ${text}`))
    const [, most, allowed] = /Most starts in any [\d.]+ s: (\d+)\. The law allows .* = (\d+)\./.exec(shown.text) ?? []
    if (!(Number(most) <= Number(allowed)) || !shown.text.includes('The law held')) faults.push(`${about}: it says "${shown.text}"`)
  }
  if (shots) await page.screenshot({ path: `${shots}/simulator-used-${width}.png`, fullPage: true })
  faults.push(...(await violations(page)).map((text) => `in use: ${text}`))
  await page.close()
  return faults.map((text) => `${width} px: simulator: ${text}`)
}

// samples covers the ends of the sliders, and values between them.
function samples() {
  const patterns = ['steady', 'random', 'batches']
  const low = { rate: 1, burst: 1, capacity: 1, arrivals: 0, slack: 0, window: 100 }
  const high = { rate: 50, burst: 20, capacity: 100, arrivals: 60, slack: 500, window: 5000 }
  const between = { rate: 7, burst: 3, capacity: 20, arrivals: 33, slack: 130, window: 1700 }
  return patterns.flatMap((pattern) => [low, high, between, { ...low, arrivals: 60 }].map((s) => ({ ...s, pattern })))
}
