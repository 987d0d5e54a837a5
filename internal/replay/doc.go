// Package replay runs the requests of logs through rules and queues, without a server: what would each have allowed,
// refused, or let wait?
//
// It promises that a rule decides here as it would in a store: the arithmetic is that of leaky, at the instants of the
// log. It reads logs of any length in memory that is bounded by the number of distinct keys, and it is never ended by a
// line that it cannot read, only by a log of which it can read none. It refuses to guess: a field that the log does not
// have is an error.
package replay
