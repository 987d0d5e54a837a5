// Loads the simulator: package leaky in WebAssembly, packed with gzip.
import packed from '../../.pages/simulator/simulator.bin?url'

let loading

// load returns the function that simulates.
export function load() {
  return loading ??= start()
}

async function start() {
  await import('../../.pages/simulator/wasm_exec.js')
  const response = await fetch(packed)
  if (!response.ok) throw new Error(`the simulator could not be loaded: the server answered ${response.status}`)
  const unpacked = response.body.pipeThrough(new DecompressionStream('gzip'))
  const code = new Response(unpacked, { headers: { 'Content-Type': 'application/wasm' } })
  const go = new globalThis.Go()
  const { instance } = await WebAssembly.instantiateStreaming(code, go.importObject)
  go.run(instance)
  return globalThis.penstockSimulate
}
