// Package asynqtarget lets Penstock and asynq (github.com/hibiken/asynq) work together, in three ways:
//
//   - Sender is the asynq target: it releases jobs as tasks into an asynq queue, at the rate of their
//     Penstock queue, so that an existing fleet of workers gets a smooth inflow.
//   - Client has asynq's Enqueue, with asynq's own options, and puts the task into a Penstock queue: a producer
//     moves by changing the line in which it makes its client.
//   - Limit makes asynq middleware: it holds the handlers of any number of workers to the rate of one
//     queue, with asynq's own settings and without spending a retry.
//
// Sender paces what enters asynq. Workers with a backlog of their own start it as fast as they can: Limit holds
// them to a rate.
//
// It promises that a task is in asynq once as long as asynq knows its id, which is the job's: set a
// retention for it to be known after it was processed.
package asynqtarget
