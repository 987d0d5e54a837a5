package upcmd

import (
	"testing"

	"github.com/penstock/penstock/internal/app"
)

// Targets on this machine need the flag: a client that may put queues need not have access to everything that listens
// on this machine.
func TestUpAllowsLoopbackOnlyByFlag(t *testing.T) {
	for _, c := range []struct {
		allow   []string
		allowed bool
	}{
		{nil, false},
		{[]string{""}, false},
		{[]string{"10.0.0.0/8"}, false},
		{[]string{"127.0.0.1"}, true},
		{[]string{"127.0.0.0/8", "::1"}, true},
	} {
		up := Cmd{EgressFlags: app.EgressFlags{EgressAllow: c.allow}}
		guard, err := up.Guard()
		if err != nil {
			t.Fatal(err)
		}
		if err := guard.Check("127.0.0.1", 9000); (err == nil) != c.allowed {
			t.Errorf("with %q allowed: %v", c.allow, err)
		}
	}
}
