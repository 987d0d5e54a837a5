// Package api is the HTTP face of an engine: jobs in, queues looked at and
// changed, health told.
//
// It promises that every request gets a truthful answer: accepted jobs are in
// the engine, refused ones carry a machine-readable reason as RFC 9457 problem
// details, and when nobody can know, the answer says that repeating with the
// same id is safe. No answer shows a secret of a queue's target. Memory is bounded
// whatever is sent, and however slowly.
//
// With an Authority each request is asked once who sends it and whether he may, before anything of it is read (see
// access.go; the table of routes says which role each operation needs). What is another app's is answered as what does
// not exist. Changes are recorded with who made them, and so are those that were refused.
//
// It refuses what it does not understand: unknown and duplicate fields, other
// content types, bodies over the limit. It decides nothing about jobs itself;
// the engine does.
package api
