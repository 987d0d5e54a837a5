//go:build !unix

package httptarget

// canPeek is whether a socket can be looked at. Where it cannot, each request has a connection of its own: nobody would
// notice that a kept one has ended, or has an answer that nobody asked for.
const canPeek = false

func peekAt(uintptr) peeked { return nothing }
