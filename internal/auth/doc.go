// Package auth authenticates requests and manages permissions: apps, their tokens, and external identities.
//
// Identity is never input: only what a request proves counts. No token, digest or JWT appears in an error, a log line
// or a String method. A revoked token is refused within 5 s while the store answers. While the store does not answer,
// known tokens, apps and subjects stay valid for Grace, and an unknown token is refused as Unavailable, not as Unknown.
//
// An App owns the queues and rules of its prefixes. A Grant is a permission: a Role for a prefix. Tokens and subjects
// have grants. A Subject is an external identity: a certificate, a JWT of a provider, or a user of this machine. A
// caller without an app is an operator.
//
// All of this is stored as documents, and an Authority keeps a compact copy.
package auth
