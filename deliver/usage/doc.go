// Package usage reads what a call has used, such as tokens, from the answer of a receiver.
//
// The answer is read as it passes: a Reader keeps no part of it but the path to the current value. So it takes a few
// hundred bytes, whatever arrives. Keeping only the last part of an answer instead would take more memory, and a part
// that begins in the middle of an object does not say where a pointer leads. Numbers that cannot be trusted are left
// out, with a Fault that says why; the charge at the departure then stands.
package usage
