// Package admission decides by rules what comes in: in front of a queue, of an HTTP handler, or of any other code. The
// examples show a program that asks rules, and a handler behind a [Middleware].
//
//	a := admission.New(engine, admission.Options{})
//	go a.Run(ctx) // follows the rules
//	taken, err := a.Take(ctx, "api.calls", []rules.Take{{Key: tenant}})
//
// The engine applies the rules. This package adds the rest: rules of other groups than a queue's own ([NewAppender]),
// decisions while the store cannot be reached (the rule's Away), and HTTP (Middleware).
//
// It promises:
//
//   - A rule is applied as it was at most about a second ago or, while the store does not answer, as last seen.
//   - A store that is away delays no caller for long: the rule's Away decides instead.
//   - Refused callers learn when to come back.
//
// It refuses to guess: a rule that this process has never seen is an error while the store is away. It may charge too
// much, never too little: after a lost answer it neither asks again nor gives back. It cannot ask rules of two groups
// in one step; docs/admission.md explains take, then refund.
package admission
