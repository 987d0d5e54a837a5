import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { renderMermaidSVG } from 'beautiful-mermaid'
import { defineConfig } from 'vitepress'

import { slugify } from '../scripts/text.mjs'

const pages = fileURLToPath(new URL('../.pages', import.meta.url))
const site = JSON.parse(readFileSync(`${pages}/site.json`, 'utf8'))
const { homepage } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))

export default defineConfig({
  title: 'Penstock',
  description: site.lead,
  lang: 'en-US',
  srcDir: '.pages/pages',
  cleanUrls: true,
  metaChunk: true,
  ignoreDeadLinks: 'localhostLinks', // those to a Penstock on the reader's machine
  base: site.base,
  vite: { plugins: [searchRoles()], publicDir: `${pages}/public`, build: { chunkSizeWarningLimit: 4000 } },
  head: [
    ['link', { rel: 'icon', type: 'image/svg+xml', href: `${site.base}icon.svg` }],
    ['meta', { name: 'theme-color', content: '#0b6e87' }],
  ],
  transformHead: ({ pageData }) => pageData.isNotFound ? [] : [
    ['link', { rel: 'alternate', type: 'text/markdown', href: site.base + pageData.relativePath }],
    ['link', { rel: 'canonical', href: canonical(pageData.relativePath) }],
  ],
  markdown: {
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
    attrs: { leftDelimiter: '{:', rightDelimiter: '}', allowedAttributes: ['id'] },
    anchor: { slugify },
    image: { lazyLoading: true },
    config(md) {
      const fence = md.renderer.rules.fence
      md.renderer.rules.fence = (tokens, i, ...rest) =>
        tokens[i].info.trim() === 'mermaid' ? diagram(tokens[i].content) : fence(tokens, i, ...rest)
      // Text such as {{payload/to}} is text, not an expression of Vue.
      const text = md.renderer.rules.text
      md.renderer.rules.text = (...args) => text(...args).replaceAll('{{', '&#123;&#123;')
      // A wide table scrolls in a box of its own, so that it stays a table for screen readers.
      md.renderer.rules.table_open = () => '<div class="table" tabindex="0" role="group" aria-label="Table"><table>\n'
      md.renderer.rules.table_close = () => '</table></div>\n'
      // An empty cell is no header.
      md.core.ruler.push('empty_headers', ({ tokens }) => tokens.forEach((token, i) => {
        if (token.type !== 'th_open' || tokens[i + 1].content.trim()) return
        token.tag = tokens[i + 2].tag = 'td'
      }))
    },
  },
  themeConfig: {
    logo: { src: '/icon.svg', alt: '' },
    nav: [...site.nav, { text: 'Simulator', link: '/simulator' }, { component: 'Versions' }],
    sidebar: site.sidebar,
    outline: { level: [2, 3], label: 'On this page' },
    search: { provider: 'local', options: { miniSearch: { searchOptions: { boost: { title: 6, titles: 2 } } } } },
    socialLinks: [{ icon: 'github', link: 'https://github.com/penstock/penstock' }],
    externalLinkIcon: true,
    editLink: {
      text: 'Source of this page',
      pattern: ({ frontmatter }) => `https://github.com/penstock/penstock/blob/main/${frontmatter.source ?? ''}`,
    },
    footer: { message: `Version ${site.version}. Apache License 2.0.` },
    versions: { current: site.version, released: site.released, root: site.root },
  },
})

// canonical returns the URL of a page where the site is published. Types of problems are such URLs.
function canonical(path) {
  return homepage + site.base.slice(site.root.length) + path.replace(/(^|\/)index\.md$/, '$1').replace(/\.md$/, '')
}

// searchRoles corrects the roles of the search box. In VitePress 1.6 the whole box is a button with controls inside, and
// its options contain links. Here the box is a dialog with a list of links.
function searchRoles() {
  const changes = [
    ['role="button"', 'role="dialog" aria-modal="true"'], [/:aria-owns="[^"]*"/, ''], ['aria-expanded="true"', ''],
    ['aria-haspopup="listbox"', ''], [/:role="results[^"]*"/, ''], [/:aria-selected="[^"]*"/, ''], ['role="option"', ''],
    [/:aria-label="\[\.\.\.p\.titles[^"]*"/, ''], ['aria-autocomplete="both"', ''], [/:aria-activedescendant="[^"]*"/, ''],
    [/<kbd :aria-label/g, '<kbd role="img" :aria-label'],
    ['<span class="title-icon">#</span>', '<span class="title-icon" aria-hidden="true">#</span>'],
  ]
  return {
    name: 'search-roles', enforce: 'pre',
    transform(code, id) {
      if (!id.endsWith('/VPLocalSearchBox.vue')) return undefined
      return changes.reduce((text, [from, to]) => {
        const changed = text.replace(from, to)
        if (changed === text) throw new Error(`the search box of VitePress has no ${from}: adapt searchRoles to this version`)
        return changed
      }, code)
    },
  }
}

// diagram renders a diagram when the site is built. Its colors follow the theme.
function diagram(source) {
  const svg = renderMermaidSVG(source, {
    bg: 'var(--vp-c-bg)', fg: 'var(--vp-c-text-1)', line: 'var(--vp-c-text-3)', accent: 'var(--vp-c-brand-1)',
    muted: 'var(--vp-c-text-2)', surface: 'var(--vp-c-bg-soft)', border: 'var(--vp-c-text-3)', transparent: true,
  }).replace(/@import url\([^)]*\);?/g, '').replace(/'Inter'[^;]*/g, 'inherit')
  const lines = source.trim().split('\n').slice(1).map((line) => line.trim().replaceAll('-->', 'to').replaceAll('[*]', 'start'))
  const label = `A diagram: ${lines.join('; ')}`.replace(/[<>&"]/g, '')
  const picture = svg.replace('<svg ', `<svg role="img" aria-label="${label}" `)
  // As a string, since Vue drops the style sheet of a picture in a template.
  const text = JSON.stringify(picture).replaceAll('&', '&amp;').replaceAll("'", '&#39;').replaceAll('<', '\\u003c')
  return `<div class="diagram" tabindex="0" role="group" aria-label="Diagram" v-html='${text}'></div>\n`
}
