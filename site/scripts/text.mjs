// Helpers for Markdown text.

// slugify returns the anchor of a heading as GitHub forms it: the tests of docs/ check links against these anchors.
export function slugify(text) {
  return text.trim().toLowerCase().replace(/[^\p{L}\p{N} _-]/gu, '').replaceAll(' ', '-')
}

// escape makes plain text safe in a line of Markdown, also in a cell of a table.
export function escape(text) {
  return text.replace(/[\\`*[\]<>|]/g, '\\$&').replace(/\s+/g, ' ').trim()
}

// code formats text as inline code, also in a cell of a table.
export function code(text) {
  const fence = text.includes('`') ? '``' : '`'
  const pad = fence === '``' ? ' ' : ''
  return fence + pad + text.replaceAll('|', '\\|') + pad + fence
}

// outsideFences applies change to the text between fenced blocks, and keeps the blocks.
export function outsideFences(text, change) {
  return text.split(/(^ *```[^\n]*\n[\s\S]*?^ *```[ \t]*$)/m).map((part, i) => i % 2 ? part : change(part)).join('')
}

// plain removes the marks of Markdown from a paragraph.
export function plain(text) {
  return text.replace(/!\[[^\]]*\]\([^)]*\)/g, '').replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').replace(/[*`]/g, '')
    .replace(/\s+/g, ' ').trim()
}

// title returns the first heading, or an error that names the page.
export function title(text, page) {
  const heading = /^# (.+)$/m.exec(text)
  if (!heading) throw new Error(`${page}: no heading of level 1; begin the page with "# Title"`)
  return plain(heading[1])
}

// description returns the first sentences of the first paragraph, at most 200 characters.
export function description(text) {
  const paragraph = outsideFences(text, (part) => part).split(/\n{2,}/)
    .find((block) => /^[A-Za-z*`[]/.test(block.trim()))
  if (!paragraph) return ''
  const sentences = plain(paragraph).split(/(?<=[.!?]) (?=[A-Z])/)
  let result = sentences[0]
  for (const sentence of sentences.slice(1)) {
    if (result.length + sentence.length >= 200) break
    result += ' ' + sentence
  }
  return result
}

// section returns the text under the heading that begins with these words, up to the next heading of the same level or
// above.
export function section(text, level, heading, page) {
  const lines = text.split('\n')
  const start = lines.findIndex((line) => (line + ' ').startsWith(`${'#'.repeat(level)} ${heading} `))
  if (start < 0) throw new Error(`${page}: no heading "${heading}" of level ${level}, which the site uses`)
  let fenced = false
  const end = lines.findIndex((line, i) => {
    if (i <= start) return false
    if (/^ *```/.test(line)) fenced = !fenced
    return !fenced && new RegExp(`^#{1,${level}} `).test(line)
  })
  return lines.slice(start + 1, end < 0 ? undefined : end).join('\n').trim()
}

// fences returns the code of all fenced blocks, with their languages.
export function fences(text) {
  return [...text.matchAll(/^```(\S*)[^\n]*\n([\s\S]*?)^```[ \t]*$/gm)].map(([, lang, body]) => ({ lang, body }))
}
