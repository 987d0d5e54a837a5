// Runs the compiled simulator, in Node.js as the browser does.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

import { defaults } from '../.vitepress/theme/settings.mjs'

// simulate returns the result for the settings with which the page begins, so that the page shows it without a script.
export async function simulate(directory, settings = defaults) {
  await import(pathToFileURL(join(directory, 'wasm_exec.js')).href)
  const go = new globalThis.Go()
  const { instance } = await WebAssembly.instantiate(readFileSync(join(directory, 'simulator.wasm')), go.importObject)
  go.run(instance) // it ends with this process
  const result = globalThis.penstockSimulate(settings)
  if (result.error) throw new Error(`the simulator refuses its default settings: ${result.error}`)
  return result
}
