// Package long gives a test two sizes: a short form for make test, and a long form for make check-release.
//
// Both forms check the same property. A test that uses this package never skips: its short form fails for the same
// faults, only in fewer cases or rounds. make test-long finds the packages that import this one, and runs all of their
// tests in the long form.
package long

import "os"

// Env is the environment variable that selects the long form, if it is not empty.
const Env = "PENSTOCK_TEST_LONG"

// Form reports whether tests run in their long form.
func Form() bool { return os.Getenv(Env) != "" }

// Of returns the size of a test: long in the long form, else short.
func Of[T any](short, long T) T {
	if Form() {
		return long
	}
	return short
}
