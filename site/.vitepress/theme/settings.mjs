// The settings with which the simulator begins. Times are in milliseconds.
export const defaults = {
  rate: 14, burst: 1, capacity: 30, arrivals: 20, pattern: 'random', slack: 20, window: 1000, seed: 1,
}

// The sliders, in groups. One is the unit of a single one.
export const groups = [
  {
    legend: 'Queue', sliders: [
      { name: 'rate', label: 'Rate', min: 1, max: 50, step: 1, unit: 'per second' },
      { name: 'burst', label: 'Burst', min: 1, max: 20, step: 1, unit: 'at once' },
      { name: 'capacity', label: 'Capacity', min: 1, max: 100, step: 1, unit: 'jobs', one: 'job' },
    ],
  },
  {
    legend: 'Arrivals', sliders: [
      { name: 'arrivals', label: 'Arrivals', min: 0, max: 60, step: 1, unit: 'per second' },
    ],
  },
  {
    legend: 'Law', sliders: [
      { name: 'slack', label: 'Slack', min: 0, max: 500, step: 10, unit: 'ms' },
      { name: 'window', label: 'Window W', min: 100, max: 5000, step: 100, unit: 'ms' },
    ],
  },
]

export const patterns = { steady: 'evenly spaced', random: 'at random', batches: 'in batches, every 2 s' }
