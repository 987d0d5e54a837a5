// Package memtest runs a program within a limit of memory, and throws at it the worst that clients can. It is for tests
// and benchmarks.
package memtest
