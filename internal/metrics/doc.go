// Package metrics exports Prometheus metrics of engines and drainers. It works from the outside: it wraps an engine,
// observes a drainer, hooks into a Redis client and reads the queues periodically.
//
// The number of series is bounded. The first queues, 200 by default, have series of their own. So do as many more
// queues that an alert may need. All others share queue="_other". Rules work the same way. Job ids, lanes, rule keys,
// payloads and URLs are never labels. A scrape never touches the store.
package metrics
