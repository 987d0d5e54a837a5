// Package queue is the contract of Penstock's bounded FIFO: what a job and a
// queue are, what may be asked of an engine, and what it answers.
//
// It promises the ten invariants of docs/design.md for every engine that passes
// queue/queuetest. It refuses to know any engine, any transport and any handler:
// those import it.
//
// Refusals are results, named in the answer of the job that they concern. An
// error means that the engine could not decide.
package queue
