// Package admission decides by rules what comes in: in front of a queue, of a handler, or of anything that asks.
//
//	a, err := admission.New(engine, admission.Options{})
//	go a.Run(ctx)                                         // follows the rules
//	taken, err := a.Take(ctx, "api.calls", []queue.Take{{Key: tenant}})
//
// The engine decides. What stands here is what it leaves to others: rules of other groups that a queue names (NewAppender),
// what holds while the store cannot be asked (Rule.Away), and HTTP (Middleware).
//
// It promises that a rule in use is gone by as it was at most about a second ago, or, while the store does not answer, as it was
// last seen; that a store which is away delays nobody for long, and decides nothing: the rule's policy does; and that whoever was told
// no is told when to come back.
//
// It refuses to guess: a rule that it has never seen is an error, whatever is away. It charges at most, never under: after
// an answer that was lost it neither asks again nor gives back. It makes no rule of two groups one step: docs/admission.md says
// what take-then-refund means.
package admission
