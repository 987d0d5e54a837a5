// Package survey periodically reads all queues of a store, once for all viewers: the overview, charts and event
// streams.
//
// A thousand viewers cause as many reads as one. No viewer waits for the store or for another viewer. Its memory is
// bounded. In return its data is not exact: it is as old as its timestamp. The store keeps its samples for 24 hours, so
// histories outlive a restart.
package survey
