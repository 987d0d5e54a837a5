// Package survey reads all queues of a store again and again, once for all who want to see them: the overview, charts,
// streams of events.
//
// It promises that the store is asked as often for one who looks as for a thousand, that nobody who looks waits for the
// store or for another, and that what it remembers is bounded. It refuses to be exact: what it shows is as old as it
// says.
package survey
