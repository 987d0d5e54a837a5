package cli

import (
	"strings"
	"testing"
)

// TestSetLimits: the items of a list are set by their numbers, and shown so when they change.
func TestSetLimits(t *testing.T) {
	url, store := ingressAndStore(t)
	t.Setenv("PENSTOCK_URL", url)
	expect(
		t, ExitDone, "made", "", "queue", "set", "ses", "rate=14/s", "limits.0.quota=50000/d",
		"limits.0.timezone=Europe/Berlin",
	)
	expect(
		t, ExitDone, "  limits.1.burst: (none) -> 100\n  limits.1.rate: (none) -> 500/m\n", "", "queue", "set", "ses",
		"limits.1.rate=500/m", "limits.1.burst=100",
	)
	info, err := store.Get(t.Context(), "ses")
	if err != nil || len(info.Spec.Limits) != 2 || info.Spec.Limits[0].Quota.String() != "50000/d" ||
		info.Spec.Limits[1].Burst != 100 {
		t.Fatalf("%v: %+v", err, info.Spec.Limits)
	}
	expect(t, ExitDone, "  limits.0.quota: 50000/d -> 40000/d\n", "", "queue", "set", "ses", "limits.0.quota=40000/d")
	r := expect(t, ExitDone, "name", "", "queue", "info", "ses")
	for _, want := range []string{"limits        40000/d Europe/Berlin, 500/m burst 100\n"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("%q is not in\n%s", want, r.out)
		}
	}
	expect(t, ExitDone, "limits.1.rate: 500/m -> (none)\n", "", "queue", "set", "ses", "limits.1=")
	for _, setting := range []string{"limits.2.rate=1/s", "limits.x.rate=1/s"} {
		expect(t, ExitUsage, "", "items, which are numbered from 0", "queue", "set", "ses", setting)
	}
	for setting, want := range map[string]string{
		"limits.0.quota=0/d": "limits.0.quota", "limits.0.timezone=Mars": "limits.0.timezone",
		"limits.0.rate=5/s": "limits.0", "limits=5": "must be a list", "limits.0.until=5": "not a field",
	} {
		expect(t, ExitRefused, "", want, "queue", "set", "ses", setting)
	}
	expect(t, ExitDone, "limits.0.quota: 40000/d -> (none)\n", "", "queue", "set", "ses", "limits=")
}
