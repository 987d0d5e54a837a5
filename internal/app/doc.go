// Package app assembles Penstock's processes. An ingress is an API over an engine behind a server; a drainer is the
// outflow with its health beside it. The programs cmd/ingress and cmd/drainer, and penstock up with both in one
// process, are assembled here, so that tests can run them in their own process.
//
// [NewIngress] and [NewDrainer] bind listeners, so that errors come at once and addresses are known. Run runs until its
// context ends. The caller opens and closes the store, the overflow and the logs that they use, with a [Base].
package app
