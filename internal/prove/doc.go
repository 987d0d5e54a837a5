// Package prove tests an installation from outside. Run makes a queue, keeps it backlogged, disturbs the drainers, and
// judges every arrival at its own receiver. RunRules makes rules, has many callers ask them, disturbs the ingresses,
// and judges what was allowed.
//
// The tolerance is fixed before the run. A run in which nothing happened proves nothing and does not count as held. A
// run leaves nothing behind except what it names, and ends only processes that it started.
//
// The package does not trust the installation. A job is delivered if the receiver saw it, and lost if the store
// accepted it and the receiver never saw it. A take is allowed if a caller got that answer.
package prove
