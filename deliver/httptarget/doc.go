// Package httptarget delivers jobs by posting them over HTTP.
//
// It promises that no byte of a delivery leaves before its departure or after its
// window: everything that can be prepared is (connections are dialled, TLS is shaken
// hands on), and a connection does not write until the gate has said so. It promises
// that a delivery ends within its target's timeout whatever the receiver does, that
// memory does not depend on what the receiver answers, that connections go only where the
// guard lets them, and that nothing it says quotes a secret of the target; what the receiver says is passed on.
//
// It refuses to follow redirects, to use a proxy that the target did not ask for, to
// speak HTTP/2, and to send a request a second time within one
// attempt once a byte of it was written.
package httptarget
