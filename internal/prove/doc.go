// Package prove shows whether an installation keeps its word: it makes a queue,
// keeps it backlogged, disturbs the drainers, and judges every arrival at a
// receiver of its own. Or it makes rules, has many ask them, disturbs the
// ingresses, and judges what was let through.
//
// It promises that the tolerance is fixed before the run, that a run in which
// nothing happened proves nothing and is not called held, and that it leaves
// nothing behind but what it names. It ends only processes that it started.
//
// It refuses to trust what it tests: delivered is what came to the receiver, lost
// is what the store accepted and the receiver never saw, and let through is what
// callers were told.
package prove
