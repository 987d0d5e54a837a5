// Package queue is the contract between Penstock's queues and the programs that use them. It defines jobs, queues,
// what an engine can be asked, and how it answers.
//
// An [Engine] keeps bounded FIFO queues and releases the jobs of each at one rate, across any number of processes.
// There are two: queue/redisq stores its queues in Redis; queue/boltq runs in one process on a file. An Engine is made
// up of interfaces named after their users:
//
//   - [Appender]: producers append jobs.
//   - [Outflow]: drainers reserve departures and settle the leases; package drain has the loop.
//   - [Specs]: operators create, change, pause and delete queues; a [SpecReader] only reads them.
//   - [ChangeLog]: operators list changes and roll them back.
//   - [Jobs]: operators and apps look up, list, cancel, replay and purge jobs.
//   - [Overflow]: package deferred puts jobs aside and brings them back.
//   - [Rules]: operators limit how much comes in; a [Taker] asks these rules, and package admission builds on it.
//   - [document.Documents]: small texts by kind and name, such as apps and tokens.
//   - [audit.Log]: who did what, and which requests were refused.
//   - [Store]: readiness checks and metrics look at the whole store.
//
// A refusal is a result, not an error: it is the outcome of the job it concerns. An error means that the engine could
// not decide: see [ErrUnavailable] and the errors beside it. Bad input is an [*invalid.Error] with the field, its
// value and what would be valid. Durations are [time.Duration] values, instants go by the engine's clock, and costs
// count intervals of the queue's rate.
//
// Some packages beside this one need no queue. Package queue/rules has rules and their answers; queue/audit has the
// audit log and the Actor of a change; queue/names, queue/unit and queue/invalid serve all of them. Two packages need
// no engine: queue/status says what a queue is doing, and queue/quote predicts what would happen to jobs.
//
// Every engine that passes queue/queuetest keeps the ten invariants of docs/design.md; that package's comment states
// the rules in prose. This package imports no engine, transport or handler: they import it.
package queue
