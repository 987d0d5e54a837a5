package redistest

import (
	"context"
	"flag"
)

// TB is the part of testing.TB that this package uses, so that programs that are not tests need not link testing.
type TB interface {
	Helper()
	Context() context.Context
	Cleanup(func())
	Failed() bool
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Skip(args ...any)
}

// skipIfShort skips tests with more than one server under -short, as in make quick.
func skipIfShort(t TB) {
	t.Helper()
	if short := flag.Lookup("test.short"); short != nil && short.Value.String() == "true" {
		t.Skip("needs more servers than one: left to make test")
	}
}

// New starts a server that ends with the test. It fails the test if that is not possible, also without redis-server.
func New(t TB, o Options) *Server {
	t.Helper()
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { closeAfter(t, s.Close, s) })
	return s
}

// NewCluster starts a Redis Cluster that ends with the test.
func NewCluster(t TB, o ClusterOptions) *Cluster {
	t.Helper()
	skipIfShort(t)
	c, err := StartCluster(t.Context(), o)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { closeAfter(t, c.Close, c.Nodes...) })
	return c
}

// NewSentinel starts a master, its replica and their Sentinels, which end with the test.
func NewSentinel(t TB, o SentinelOptions) *Sentinel {
	t.Helper()
	skipIfShort(t)
	s, err := StartSentinel(t.Context(), o)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { closeAfter(t, s.Close, append(s.Nodes, s.Sentinels...)...) })
	return s
}

// closeAfter shows the servers' logs if the test failed, and removes the servers.
func closeAfter(t TB, closeAll func() error, servers ...*Server) {
	t.Helper()
	if t.Failed() {
		for _, s := range servers {
			t.Logf("log of redis-server at %s ends:\n%s", s.Addr(), s.LogTail())
		}
	}
	if err := closeAll(); err != nil {
		t.Errorf("%v", err)
	}
}
