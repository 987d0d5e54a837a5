// Package asynqtarget lets Penstock and asynq (github.com/hibiken/asynq) work together, in three ways:
//
//   - Sender is the asynq target: it releases jobs as tasks into an asynq queue, at the rate of their
//     Penstock queue, so that an existing fleet of workers gets a smooth inflow.
//   - Client has asynq's Enqueue, with asynq's own options, and puts the task into a Penstock queue: a producer
//     moves by changing the line in which it makes its client.
//   - Limit makes asynq middleware: it holds the handlers of any number of workers to the rate of one
//     queue, with asynq's own settings and without spending a retry.
//
// Sender paces only what enters asynq. Workers start the tasks of a backlog in asynq as fast as they can; use Limit to
// hold them to a rate.
//
// A task's ID is its job's ID. While asynq knows the ID, the task is not added again. Set a retention so that asynq
// still knows the ID after the task was processed.
package asynqtarget
