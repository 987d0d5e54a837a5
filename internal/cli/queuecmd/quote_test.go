package queuecmd

import (
	"testing"

	"github.com/penstock/penstock/internal/wire"
)

func TestExpiringText(t *testing.T) {
	for want, e := range map[string]wire.Expiring{
		"":                                     {Exact: true},
		"; 1 of the waiting jobs would expire": {Jobs: 1, Exact: true},
		"; about 2 of the waiting jobs would expire":    {Jobs: 2},
		"; at least 7 of the waiting jobs would expire": {Jobs: 7, AtLeast: true},
	} {
		if got := expiringText(&e); got != want {
			t.Errorf("%+v: %q, want %q", e, got, want)
		}
	}
}
