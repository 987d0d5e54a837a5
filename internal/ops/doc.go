// Package ops provides the operational parts of every Penstock process: an HTTP server with bounded memory, health
// endpoints, and groups of functions that start and stop together.
//
// A client that sends slowly, sends without end or never reads loses its connection before it does harm. Stopping takes
// no longer than the grace period. The server refuses to listen beyond loopback without TLS, unless configured to.
package ops
