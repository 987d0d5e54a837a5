// Package queue is the contract of Penstock's bounded FIFO: what a job and a queue are, what an engine can be
// asked, and what it answers.
//
// An [Engine] keeps queues and lets their jobs out at one rate each, over any number of processes. There are two:
// queue/redisq on Redis, and queue/boltq in one process on a file. What they can be asked stands in interfaces
// named by who uses them, of which an Engine is made up:
//
//   - [Appender]: producers bring jobs in.
//   - [Outflow]: drainers reserve departures and settle what became of them; package drain has the loop.
//   - [Specs]: operators make, change, pause and delete queues; a [SpecReader] only looks them up.
//   - [ChangeLog]: operators see what was changed, and take it back.
//   - [Jobs]: jobs are looked up, listed, cancelled, replayed and purged.
//   - [Overflow]: package deferred puts jobs aside and brings them back.
//   - [Rules]: operators set limits on what comes in; a [Taker] asks them, and package admission builds on it.
//   - [document.Documents]: small texts by kind and name, such as apps and tokens.
//   - [audit.Log]: who did what, and what was refused.
//   - [Store]: readiness and metrics look at the whole.
//
// Refusals are results, named in the answer of the job that they concern. An error means that the engine could not
// decide: see [ErrUnavailable] and its neighbours. Bad input is a [*invalid.Error], with the field, its value and
// what would be right. Durations are those of package time, instants are by the engine's clock, and costs count
// intervals of the queue's rate.
//
// Packages beside this one that need no queue: queue/rules holds rules and their answers, queue/audit the log and the
// Actor of a change; queue/names, queue/unit and queue/invalid serve all of them. Two packages need no engine:
// queue/status says what a queue does, and queue/quote what would become of jobs.
//
// Every engine that passes queue/queuetest keeps the ten invariants of docs/design.md; its package comment has the
// rules in prose. This package knows no engine, no transport and no handler: those import it.
package queue
