// The front page and the page of the simulator. What they say about Penstock comes from README.md, so that a page
// cannot promise more than the tests of the documentation check.
import { fences, plain, section } from './text.mjs'

const source = 'README.md'

// homePage returns the front page.
export function homePage(readme, sections) {
  const paragraphs = readme.split(/\n{2,}/)
  const lead = plain(paragraphs[1])
  const sentences = lead.split(/(?<=[.!?]) (?=[A-Z])/)
  const promises = paragraphs.find((block) => block.startsWith('- **'))
  const demo = fences(section(readme, 2, 'Try it', source))
  const proof = section(readme, 2, 'Proof', source)
  if (!promises || demo.length < 2) throw new Error(`${source}: no list of promises, or no demo with its output`)
  const start = sections.find(({ key }) => key === 'tutorials')?.pages[0].path ?? 'readme.md'
  const text = `<div class="figure">

<Simulation />

<p class="caption">A simulated queue: 20 jobs per second arrive at random, and 14 per second leave. When the queue
is full, jobs are refused.
<a href="./simulator">Change the rate, the burst and the arrivals</a>, and watch the law hold.</p>

</div>

## What it promises

<div class="promises">

${promises}

</div>

## See it run

${section(readme, 2, 'Try it', source)}

## Check it yourself

${proof}

## Find your way

<div class="ways">

${ways(sections)}

</div>
`
  return {
    path: 'index.md', section: 'home', source, linksFrom: source, title: 'Penstock', description: lead,
    frontmatter: {
      layout: 'Front', sidebar: false, titleTemplate: 'A job queue with an exact rate',
      hero: {
        name: 'Penstock', text: sentences[0].replace(/\.$/, ''), tagline: sentences.slice(1).join(' '),
        actions: [
          { theme: 'brand', text: 'Get started', link: link(start) },
          { theme: 'alt', text: 'Simulator', link: '/simulator' },
          { theme: 'alt', text: 'Why the rate holds', link: '/design' },
        ],
      },
    },
    text: text.replace(/^ *<!--[\s\S]*?-->\n/gm, ''),
    copy: readme.replace(/^ *<!--[\s\S]*?-->\n/gm, ''),
  }
}

const link = (path) => '/' + path.replace(/(^|\/)index\.md$/, '$1').replace(/\.md$/, '')

const aims = {
  tutorials: 'Learn Penstock step by step.', howto: 'Solve one task.', explanation: 'Understand why it works.',
  reference: 'Look up settings, commands and fields.', openapi: 'All operations, generated from OpenAPI.',
  problems: 'A page for each reason of a refusal.',
}

function ways(sections) {
  const seen = new Set()
  return sections.filter(({ key }) => !seen.has(key) && seen.add(key)).map(({ key, text, group, pages }) =>
    `- **[${group ? 'Reference' : text}](@/${pages[0].path})** ${aims[key]}`).join('\n')
}

// simulatorPage returns the page of the simulator, with the law in the words of README.md.
export function simulatorPage(readme) {
  const law = /- \*\*Never over the rate\.\*\* ([\s\S]*?)\n- /.exec(readme)?.[1].replace(/\s+/g, ' ')
  if (!law) throw new Error(`${source}: no promise "Never over the rate", which the simulator shows`)
  const about = `# Simulator

After this page you can say how rate, burst and capacity act together. The simulator runs one queue for 10 s in
virtual time. It is the Go package \`leaky\`, which also paces the embedded store, compiled to WebAssembly.
`
  const explained = `## The law

${law}

See [how Penstock works](docs/design.md) for the reasons.
`
  return {
    path: 'simulator.md', section: 'explanation', source: 'site/simulator/main.go', linksFrom: source,
    title: 'Simulator', description: plain(about.split('\n\n')[1]),
    frontmatter: { aside: false }, text: `${about}\n<Simulator />\n\n${explained}`, copy: `${about}\n${explained}`,
  }
}
