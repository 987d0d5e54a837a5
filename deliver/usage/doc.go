// Package usage reads what a call has used, such as tokens, from the answer of a receiver.
//
// The answer is read as it passes: a Reader keeps no part of it but the path to the current value. So it takes a few
// hundred bytes, whatever arrives. Numbers that cannot be trusted are left out, with a Fault that says why; the charge
// at the departure then stands.
package usage
