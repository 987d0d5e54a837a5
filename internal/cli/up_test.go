package cli

import (
	"testing"

	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/ops"
)

// Targets may be on this machine only while nobody else can name some.
func TestUpAllowsLoopback(t *testing.T) {
	for _, c := range []struct {
		listen  string
		allow   []string
		allowed bool
	}{
		{"127.0.0.1:8080", nil, true},
		{"localhost:8080", nil, true},
		{"[::1]:0", nil, true},
		{"0.0.0.0:8080", nil, false},
		{":8080", nil, false},
		{"10.0.0.7:8080", nil, false},
		{"127.0.0.1:8080", []string{"10.0.0.0/8"}, false},
		{"0.0.0.0:8080", []string{"127.0.0.1"}, true},
	} {
		up := upCmd{EgressFlags: app.EgressFlags{EgressAllow: c.allow}}
		guard, err := up.guard(ops.Listen{Addr: c.listen})
		if err != nil {
			t.Fatal(err)
		}
		if err := guard.Check("127.0.0.1"); (err == nil) != c.allowed {
			t.Errorf("listening on %s with %q allowed: %v", c.listen, c.allow, err)
		}
	}
}
