// Package admission decides by rules what comes in: in front of a queue, of an HTTP handler, or of anything that
// asks. The examples show a program that asks, and a handler behind a [Middleware].
//
//	a := admission.New(engine, admission.Options{})
//	go a.Run(ctx) // follows the rules
//	taken, err := a.Take(ctx, "api.calls", []rules.Take{{Key: tenant}})
//
// The engine decides what a rule says. This package adds what the engine leaves to others: rules of other groups
// than a queue's own ([NewAppender]), what holds while the store cannot be asked (the rule's Away), and HTTP
// (Middleware).
//
// It promises:
//
//   - A rule is applied as it was at most about a second ago or, while the store does not answer, as it was last
//     seen.
//   - A store that is away delays nobody for long: the rule's Away decides in its place.
//   - Whoever is refused is told when to come back.
//
// It refuses to guess: a rule that this process has never seen is an error, whatever is away. It may charge too
// much, never too little: after an answer that was lost it neither asks again nor gives back. It cannot make one
// step of rules of two groups; docs/admission.md says what take, then refund means.
package admission
