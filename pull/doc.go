// Package pull hands the jobs of pull queues to workers that request them: each request waits until a job may start,
// and gets it then. [Turns] makes callers wait for their turn in a queue that any number of processes share.
// [Transport] does the same for an HTTP client. The examples show both.
//
// A job is handed over only within the window of its departure, measured on the monotonic clock as in package drain,
// or given back. Requests are served in the order in which they arrived. A granted job without a request is given back
// at once, also when the process stops. The number of waiting requests, and the memory for their jobs, are limited.
//
// The package does not settle jobs for workers: a job that was handed over belongs to its worker until its lease ends.
// It knows no engine, and nothing of HTTP except what Transport needs.
package pull
