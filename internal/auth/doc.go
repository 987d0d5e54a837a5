// Package auth says who a request comes from and what he may do: apps, their tokens, and the other ways in.
//
// It promises that identity is never input: what a request says of itself decides nothing, only what it proves. It
// promises that no token, digest or JWT stands in an error, a log line or the String of anything, that a token which
// was revoked is known here within 5 s while the store answers, and that what is known holds for Grace while it does
// not. It refuses to guess: of a token that it does not know while the store is away it says that it cannot tell.
//
// An App owns the queues and rules of its prefixes. A Grant is a Role for a prefix; tokens and subjects have some. A
// Subject is somebody who proves who he is in another way than by a token: by a certificate, a JWT of a provider, or
// as a user of this machine. The operator is whoever has no app.
//
// All of it is documents of the store, of which an Authority keeps a compact copy.
package auth
