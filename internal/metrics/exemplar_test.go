package metrics

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/drain"
)

type otherKey struct{}

// Observations without a trace do not allocate.
func TestNoExemplarAllocatesNothing(t *testing.T) {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "h"})
	ctx, job := context.WithValue(context.Background(), otherKey{}, "x"), &drain.Job{}
	for name, do := range map[string]func(){
		"append": func() { observe(h, 1, exemplarOf(ctx)) },
		"drain":  func() { observe(h, 1, exemplarOfJob(job)) },
	} {
		if n := testing.AllocsPerRun(1000, do); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
