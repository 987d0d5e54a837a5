// Package replay runs the requests of logs through rules and queues, without a server: what would each have allowed,
// refused, or let wait?
//
// It promises that a rule or a queue decides here as it would in a store: the arithmetic is that of leaky, and queues
// are those of queue/machine, at the instants of the log. It reads logs of any length in memory that is bounded by the
// numbers of distinct keys and of jobs that wait, and it is never ended by a line that it cannot read, only by a log of
// which it can read none. It refuses to guess: a field that the log does not
// have is an error.
package replay
