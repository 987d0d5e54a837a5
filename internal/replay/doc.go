// Package replay runs the requests of logs through rules and queues, without a server. It shows what each would have
// allowed, refused, or delayed.
//
// A rule or a queue decides as it would in a store: the arithmetic is package leaky's, and queues are those of
// queue/machine, at the instants of the log. Logs may have any length; memory is bounded by the numbers of distinct
// keys and of waiting jobs. Unreadable lines never end a replay, unless no line is readable. A field that the log does
// not have is an error.
package replay
