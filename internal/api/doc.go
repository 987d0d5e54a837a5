// Package api serves the HTTP API of an engine.
//
// Every request gets a truthful answer. Accepted jobs are in the engine. Refusals are RFC 9457 problems with a
// machine-readable reason. If the outcome is unknown, the answer says so, and that repeating the request with the same
// id is safe. No answer shows a secret of a queue's target. Memory is bounded, however much is sent and however slowly.
//
// With an Authority, each caller is identified and authorized before the body is read (see authorize.go). The table of
// routes names the role that each operation needs. Names of other apps are answered like unknown names. Changes and
// refused changes are recorded with their actor.
//
// The package reads requests and writes answers with httpio. It decides nothing about jobs; the engine does.
package api
