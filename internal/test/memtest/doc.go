// Package memtest runs a program within a memory limit, and attacks it with the worst requests that clients can send.
// It is for tests and benchmarks.
package memtest
