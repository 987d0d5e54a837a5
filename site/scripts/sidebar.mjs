// The order of the pages, by Diataxis: tutorials, how-to guides, explanation, reference. Pages appear by themselves,
// under their first heading. Only the reference, which is large, has groups by subject.
const guides = [
  { section: 'tutorials', text: 'Tutorials', first: 'first-five-minutes' },
  { section: 'howto', text: 'How-to guides' },
  { section: 'explanation', text: 'Explanation' },
]

// The groups of the reference. Pages that none of them lists come under "More".
const groups = [
  { text: 'Interfaces', paths: ['api', 'cli', 'console', 'configuration', 'go', 'typescript', 'python', 'testing'] },
  { text: 'Limits and overflow', paths: ['proxy', 'admission', 'limiters', 'deferred'] },
  { text: 'Targets', section: 'targets' },
  { text: 'Access', paths: ['access', 'roles', 'threat-model'] },
  { text: 'Operation', paths: ['deploy', 'helm', 'metrics', 'runbook', 'tracing', 'backup'] },
  { text: 'Design and proof', paths: ['design', 'not-planned', 'prove', 'benchmarks'] },
  { text: 'Project', paths: ['readme', 'changelog', 'stability', 'security', 'contributing', 'code-of-conduct'] },
]

// navigation returns the sections with their pages, and what VitePress shows in the sidebar and at the top.
export function navigation(pages) {
  const known = new Set([...guides.map((guide) => guide.section), 'targets', 'openapi', 'problems', 'reference'])
  const inSection = (section) => pages.filter((page) => page.section === section)
  const listed = new Set(groups.flatMap((group) => group.paths ?? []))
  const sections = [
    ...guides.map(({ section, text, first = 'index' }) => ({
      text, key: section, pages: inSection(section).sort(byRank(`${section}/${first}.md`)),
    })),
    ...groups.map(({ text, section, paths }) => ({
      text, key: 'reference', group: true, pages: section ? inSection(section) : paths.flatMap((path) =>
        pages.filter((page) => page.section === 'reference' && page.path === path + '.md')),
    })),
    {
      text: 'More', key: 'reference', group: true, pages: pages.filter((page) => !known.has(page.section) ||
        page.section === 'reference' && !listed.has(page.path.replace(/\.md$/, ''))),
    },
    { text: 'API reference', key: 'openapi', pages: inSection('openapi') },
    { text: 'Error codes', key: 'problems', pages: inSection('problems') },
  ].filter((section) => section.pages.length > 0)
  return { sections, sidebar: sidebarOf(sections), nav: navOf(sections) }
}

// byRank puts one page before the others, which stay in order.
const byRank = (first) => (a, b) => Number(b.path === first) - Number(a.path === first)

// link returns the path of a page without .md and index.
export const link = (page) => '/' + page.path.replace(/(^|\/)index\.md$/, '$1').replace(/\.md$/, '')

function sidebarOf(sections) {
  const items = (pages) => pages.map((page) => ({ text: page.title, link: link(page) }))
  const entry = ({ text, pages, key }) => key === 'openapi' || key === 'problems'
    ? { text, link: link(pages[0]), collapsed: true, items: items(pages.slice(1)) } : { text, items: items(pages) }
  const reference = sections.filter((section) => section.group)
  return [
    ...sections.filter((section) => guides.some((guide) => guide.section === section.key)).map(entry),
    ...reference.map(entry).map((group) => ({ ...group, text: `Reference: ${group.text.toLowerCase()}` })),
    ...sections.filter((section) => section.key === 'openapi' || section.key === 'problems').map(entry),
  ]
}

function navOf(sections) {
  const first = (key) => sections.find((section) => section.key === key)?.pages[0]
  return [
    ...guides.map(({ section, text }) => ({ text, key: section })), { text: 'Reference', key: 'reference' },
    { text: 'API', key: 'openapi' },
  ].filter(({ key }) => first(key)).map(({ text, key }) => ({
    text, link: link(first(key)), activeMatch: key === 'reference' ? undefined : `/${key}/`,
  }))
}
