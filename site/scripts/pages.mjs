// Writes the pages of the site into .pages: the documentation of the repository, the API reference, a page per error
// code, the front page and the simulator. Also writes llms.txt with a Markdown copy of each page, and site.json, from
// which VitePress gets the sidebar.
//
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'

import { homePage, simulatorPage } from './home.mjs'
import { openapiPages } from './openapi.mjs'
import { problemPages } from './problems.mjs'
import { navigation } from './sidebar.mjs'
import { description, outsideFences, plain, title } from './text.mjs'

const repository = 'https://github.com/penstock/penstock'

// Pages outside docs/.
const others = {
  'README.md': 'readme.md', 'CONTRIBUTING.md': 'contributing.md', 'CHANGELOG.md': 'changelog.md',
  'SECURITY.md': 'security.md', 'CODE_OF_CONDUCT.md': 'code-of-conduct.md',
  'deploy/README.md': 'deploy.md', 'deploy/helm/penstock/README.md': 'helm.md',
}

// pathOf returns the path on the site of a Markdown file of the repository, or undefined if it is no page.
function pathOf(source) {
  if (others[source]) return others[source]
  if (!source.startsWith('docs/') || !source.endsWith('.md')) return undefined
  return source.slice('docs/'.length).replace(/(^|\/)(README|index)\.md$/, '$1index.md')
}

// documents returns the Markdown files of the repository that become pages.
function documents(root) {
  const found = readdirSync(join(root, 'docs'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.md'))
    .map((entry) => posix.join('docs', entry.parentPath.slice(join(root, 'docs').length + 1), entry.name))
  return [...Object.keys(others).filter((name) => existsSync(join(root, name))), ...found.sort()]
}

function documentPage(root, source) {
  const path = pathOf(source)
  const text = readFileSync(join(root, source), 'utf8').replace(/^ *<!--[\s\S]*?-->\n/gm, '')
    .replace(/^( *```\w+) .+$/gm, '$1')
  const even = evenHeadings(text)
  return {
    // An outline with promoted headings would be as long as the page.
    ...even === text ? {} : { frontmatter: { outline: 2 } },
    path, source, linksFrom: source, section: path.includes('/') ? path.split('/')[0] : 'reference',
    title: title(text, source), description: description(text), text: even,
  }
}

// evenHeadings promotes headings that skip a level, which screen readers announce as a gap.
function evenHeadings(text) {
  const above = [] // the levels, as written, of the headings over this one
  return outsideFences(text, (part) => part.replace(/^#{1,6}(?= )/gm, (marks) => {
    while (above.at(-1) >= marks.length) above.pop()
    return '#'.repeat(above.push(marks.length))
  }))
}

// Linker resolves the links of pages.
class Linker {
  constructor(root, ref, pages) {
    this.root = root
    this.ref = ref
    this.paths = new Set(pages.map((page) => page.path))
    this.images = new Map()
  }

  // link returns the target of a link, relative to the page.
  link(page, target, image) {
    if (/^(\w+:|#)/.test(target)) return target
    const [file, anchor] = target.split('#')
    const hash = anchor === undefined ? '' : '#' + anchor
    if (file.startsWith('@public/')) return this.relative(page, file.slice('@public/'.length))
    if (file.startsWith('@/')) return this.toPage(page, file.slice(2), hash, target)
    const source = posix.join(posix.dirname(page.linksFrom ?? '.'), file)
    if (pathOf(source) && existsSync(join(this.root, source))) return this.toPage(page, pathOf(source), hash, target)
    if (!existsSync(join(this.root, source))) throw new Error(`${page.source}: link to ${target}, which does not exist`)
    if (image) {
      const copy = 'images/' + source.replace(/^docs\//, '').replaceAll('/', '-')
      this.images.set(source, copy)
      return this.relative(page, copy)
    }
    const kind = statSync(join(this.root, source)).isDirectory() ? 'tree' : 'blob'
    return `${repository}/${kind}/${this.ref}/${source.replace(/\/$/, '')}${hash}`
  }

  toPage(page, path, hash, target) {
    if (!this.paths.has(path)) throw new Error(`${page.source}: link to ${target}, but the site has no page ${path}`)
    return this.relative(page, path) + hash
  }

  relative(page, path) {
    const relative = posix.relative(posix.dirname(page.path), path)
    return relative.startsWith('.') ? relative : './' + relative
  }

  // all rewrites the links of a page.
  all(page) {
    return outsideFences(page.text, (part) =>
      part.replace(/(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)/g, (_, image, text, target) =>
        `${image}[${image ? text : this.nested(page, text)}](${this.link(page, target, image)})`))
  }

  nested(page, text) {
    return text.replace(/!\[([^\]]*)\]\(([^)\s]+)\)/g, (_, alt, target) => `![${alt}](${this.link(page, target, true)})`)
  }
}

// forVitePress makes the paths of images absolute, as VitePress wants them for files that it copies unchanged.
function forVitePress(page, text) {
  return outsideFences(text, (part) => part
    .replace(/(!\[[^\]]*\]\()(\.[^)]*images\/)/g, '$1/images/')
    .replace(/\]\(\.{1,2}\/(?:\.\.\/)*(openapi\.json)\)/g, '](/$1)'))
}

// forReaders returns the Markdown copy: anchors as every reader of Markdown knows them, and no components.
function forReaders(text) {
  return text.replace(/^(#+) (.+) \{:#([\w.-]+)\}$/gm, '$1 <a id="$3"></a>$2')
}

function frontmatter(page) {
  const fields = { title: page.title, description: page.description, ...page.frontmatter }
  if (page.source) fields.source = page.source
  return '---\n' + Object.entries(fields).map(([key, value]) => `${key}: ${JSON.stringify(value)}`).join('\n') + '\n---\n\n'
}

function write(path, text) {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, text)
}

// llms returns llms.txt, see https://llmstxt.org. base precedes all paths.
function llms(lead, sections, base) {
  const list = sections.map(({ text, pages }) => `## ${text}\n\n` + pages.map((page) =>
    `- [${page.title}](${base}${page.path})${page.description ? ': ' + page.description : ''}`).join('\n') + '\n')
  return `# Penstock\n\n> ${lead}\n\nEvery page of the documentation is also available as Markdown, under these links.\n\n` +
    list.join('\n')
}

// writePages writes the pages of the repository at root, which may be an earlier release, into out/pages. It writes what
// is served unchanged into out/public. Links into the repository lead to ref. The version is served under base, and the
// latest one under top.
export function writePages(root, out, { version, ref, base, top, released }) {
  const openapi = JSON.parse(readFileSync(join(root, 'internal/api/openapi.json'), 'utf8'))
  const readme = readFileSync(join(root, 'README.md'), 'utf8')
  const pages = [
    ...documents(root).map((source) => documentPage(root, source)),
    ...openapiPages(openapi), ...problemPages(root, openapi),
  ]
  pages.push(simulatorPage(readme))
  const { sections, sidebar, nav } = navigation(pages)
  pages.push(homePage(readme, sections))

  const linker = new Linker(root, ref, pages)
  for (const page of pages) {
    const text = linker.all(page)
    write(join(out, 'pages', page.path), frontmatter(page) + forVitePress(page, text))
    write(join(out, 'public', page.path), forReaders(page.copy ? linker.all({ ...page, text: page.copy }) : text))
  }
  for (const [source, copy] of linker.images) cpSync(join(root, source), join(out, 'public', copy), { recursive: true })
  const lead = plain(readme.split(/\n{2,}/)[1])
  write(join(out, 'public/openapi.json'), JSON.stringify(openapi, null, 2) + '\n')
  write(join(out, 'public/llms.txt'), llms(lead, sections, base))
  write(join(out, 'public/icon.svg'), readFileSync(join(root, 'internal/console/assets/icon.svg')))
  write(join(out, 'site.json'), JSON.stringify({ version, released, base, root: top, sidebar, nav, lead }, null, 2))
  return pages
}

export const site = dirname(dirname(fileURLToPath(import.meta.url)))
