// Package pull hands the jobs of pull queues to whoever asks for them: each request waits until a job may start,
// and gets it then. [Turns] makes callers wait for their turn in a queue that any number of processes share, and
// [Transport] does so for an HTTP client; their examples show it.
//
// It promises that a job is handed over only within the window that its departure was granted for, judged on the
// monotonic clock as package drain does: with s the instant before the engine was asked and r the one after its
// answer, a job that departs "in d" is handed over in [r+d, s+d+slack] or given back. Requests are served in the
// order in which they came. What was granted and found nobody is given back at once, also when the process stops.
// What waits, and what is held for it, is bounded.
//
// It refuses to settle for the workers: a job that was handed over belongs to its worker until its lease is over.
// It knows no engine, and of HTTP only what a client waits with.
package pull
