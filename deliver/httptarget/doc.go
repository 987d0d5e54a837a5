// Package httptarget delivers jobs by posting them over HTTP.
//
// No byte of a delivery leaves before its departure or after its window. Everything that can be prepared is prepared:
// the connection is made and the request rendered. Behind the gate, the same goroutine checks that the connection is
// alive and writes. A delivery ends within its target's timeout, and its memory is limited, whatever the receiver does.
// Connections go only where the guard permits. Errors never quote a secret of the target; they do quote the receiver's
// answer.
//
// The package does not follow redirects, uses a proxy only if the target names one, does not speak HTTP/2, and does not
// send a request twice within one attempt once a byte of it was written.
package httptarget
