// Builds the site into dist: the simulator, the pages and, for each released version, its documentation.
//
// VERSION names the version that is built; by default as git describes it. VERSIONS lists the released versions, with
// spaces between them; by default all tags such as v1.2.3. BASE is the path under which the site is served.
import { execFileSync, spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'

import { site, writePages } from './pages.mjs'
import { simulate } from './simulation.mjs'

const root = join(site, '..')
const git = (...args) => {
  const result = spawnSync('git', ['-C', root, ...args], { encoding: 'utf8' })
  return result.status === 0 ? result.stdout.trim() : ''
}

const version = process.env.VERSION || git('describe', '--tags', '--always', '--dirty') || 'unknown'
const released = (process.env.VERSIONS ?? git('tag', '--list', 'v*', '--sort=-v:refname')).split(/\s+/)
  .filter((tag) => /^v\d+\.\d+\.\d+$/.test(tag))
const base = `/${(process.env.BASE ?? '').replace(/^\/|\/$/g, '')}/`.replace('//', '/')
const pages = join(site, '.pages')
const simulator = join(pages, 'simulator')

// compile compiles the simulator, and takes the loader that belongs to the same version of Go.
function compile() {
  mkdirSync(simulator, { recursive: true })
  const wasm = join(simulator, 'simulator.wasm')
  execFileSync('go', ['build', '-trimpath', '-ldflags', '-s -w', '-o', wasm, './site/simulator'], {
    cwd: root, stdio: 'inherit', env: { ...process.env, GOOS: 'js', GOARCH: 'wasm', CGO_ENABLED: '0' },
  })
  const goroot = execFileSync('go', ['env', 'GOROOT'], { cwd: root, encoding: 'utf8' }).trim()
  copyFileSync(join(goroot, 'lib/wasm/wasm_exec.js'), join(simulator, 'wasm_exec.js'))
  const code = readFileSync(wasm)
  const packed = gzipSync(code, { level: 9 })
  // The page unpacks it. So it is small on servers that compress nothing, too.
  writeFileSync(join(simulator, 'simulator.bin'), packed)
  const kB = (n) => `${Math.round(n / 1000)} kB`
  console.log(`simulator: ${kB(code.length)}, ${kB(packed.length)} with gzip`)
}

// render writes the pages of a version and lets VitePress build them. Each version gets its own process, because
// VitePress keeps what it has read.
function render(from, { name, ref, path, out }) {
  const list = writePages(from, pages, { version: name, ref, base: path, top: base, released })
  const result = spawnSync(process.execPath, [join(site, 'node_modules/vitepress/bin/vitepress.js'), 'build', site,
    '--outDir', out], { stdio: 'inherit' })
  if (result.status !== 0) throw new Error(`VitePress could not build version ${name}`)
  console.log(`version ${name}: ${list.length} pages in ${out}`)
}

function clearPages() {
  rmSync(pages, { recursive: true, force: true })
  compile()
  return simulate(simulator).then((result) =>
    writeFileSync(join(simulator, 'initial.json'), JSON.stringify(result)))
}

const dist = join(site, 'dist')
rmSync(dist, { recursive: true, force: true })
await clearPages()
render(root, { name: version, ref: 'main', path: base, out: dist })
for (const tag of released) {
  const from = mkdtempSync(join(tmpdir(), 'penstock-site-'))
  try {
    const archive = execFileSync('git', ['-C', root, 'archive', tag], { maxBuffer: 1 << 30 })
    execFileSync('tar', ['-x', '-C', from], { input: archive })
    await clearPages()
    render(from, { name: tag, ref: tag, path: `${base}${tag}/`, out: join(dist, tag) })
  } finally {
    rmSync(from, { recursive: true, force: true })
  }
}
