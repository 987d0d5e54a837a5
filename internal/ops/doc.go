// Package ops is what every Penstock process shares in running: an HTTP server
// that cannot be worn down, health for those who watch it, and a group of things
// that start and stop together.
//
// It promises that a client which sends slowly, or never ends, or never reads,
// loses its connection before it costs anything that matters, and that stopping
// takes no longer than it was given. It refuses to listen beyond loopback
// unencrypted unless told so.
package ops
