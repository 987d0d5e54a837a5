// Package app puts Penstock's processes together: an ingress is an API over an
// engine behind a server, a drainer is the outflow with its health beside it.
// What cmd/ingress and cmd/drainer are, and what runs both in one process, is
// here, and can be tested in a test's process.
//
// New binds listeners, so that errors come at once and addresses can be told; Run
// runs until its context ends. The engine is the caller's to open and to close,
// after Run.
package app
