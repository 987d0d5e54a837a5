// Package client is a client of Penstock, over its HTTP API.
//
// It appends jobs, works on them, waits for turns, asks rules and operates queues. It needs only the standard library.
// All methods of a Client are safe for use by many goroutines, and end when their context does.
//
// # Errors
//
// A *Problem is a refusal by the server, with a Reason for programs and the time after which to retry. An *Unreachable
// means that no answer came, or only part of one. ErrInvalid marks arguments that were never sent. Use errors.As and
// errors.Is.
//
// # Retries
//
// Calls that can safely be repeated are repeated if no answer came, and after refusals that say that nothing was
// decided: 502, 503 and 504, and 429 with reason crowded, over_share or app_limit. There are at most 5 tries. The pause
// before a retry is what the server asks for, or a random time that grows with the tries. Takes, refunds and
// conditional changes are never repeated.
//
// # Timeouts
//
// By default a call ends after 10 s with all its retries, and a call that waits at the server after the wait and 10 s.
// The error is then an *Unreachable that is also context.DeadlineExceeded. WithTimeout changes the 10 s.
package client

//go:generate go run ./internal/gen ../internal/api/openapi.json types.go
