package redistest

import "context"

// TB is the part of testing.TB that this package uses, named here so that a program which is no test does not link
// the testing package.
type TB interface {
	Helper()
	Context() context.Context
	Cleanup(func())
	Failed() bool
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// New starts a server that ends with the test. It fails the test when that is not possible, also when there is no
// redis-server: it never skips.
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
	s, err := StartSentinel(t.Context(), o)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { closeAfter(t, s.Close, append(s.Nodes, s.Sentinels...)...) })
	return s
}

// closeAfter shows what the servers of a failed test had to say before it removes them.
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
