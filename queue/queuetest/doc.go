// Package queuetest is the contract of package queue as a program: docs/engine.md
// rule by rule and the invariants of docs/design.md, for any engine to run.
//
// It promises determinism: the engine takes its time from a clock that only the
// suite moves, instants are compared exactly, and nothing waits for anything to
// settle. It refuses to look inside an engine: what cannot be told from outside
// through queue.Engine is left to that engine's own tests.
//
// Run holds one engine against the rules. Differential holds two engines against
// each other, on the same random operations at the same instants.
package queuetest
