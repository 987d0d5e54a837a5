package faultproxy

import "context"

// TB is the part of testing.TB that this package uses, so that programs that are not tests need not link testing.
type TB interface {
	Helper()
	Context() context.Context
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// New starts a proxy that ends with the test. The test fails if the proxy received data that it did not understand.
func New(t TB, targets ...string) *Proxy {
	t.Helper()
	p, err := Start(t.Context(), targets...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("%v", err)
		}
	})
	return p
}
