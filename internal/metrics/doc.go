// Package metrics counts, for Prometheus, what engines and drainers do, from the outside: it wraps an engine, observes
// a drainer, hooks into a Redis client, and looks at the queues now and then.
//
// It promises a bounded number of series: the first queues, 200 unless said otherwise, have series of their own, as do
// as many more that an alert may be about; all others share queue="_other". Rules likewise. No job id, lane, key of a
// rule, payload or URL is ever a label. It refuses to touch the store when metrics are scraped.
package metrics
