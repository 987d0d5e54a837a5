package metrics_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/deferred"
	"github.com/penstock/penstock/internal/metrics"
	"github.com/penstock/penstock/queue"
)

func TestOverflow(t *testing.T) {
	reg := prometheus.NewRegistry()
	o, err := metrics.NewOverflow(reg, 2)
	if err != nil {
		t.Fatal(err)
	}
	o.Stored("a", 3, time.Millisecond, nil)
	o.Stored("b", 2, time.Millisecond, nil)
	o.Stored("c", 1, time.Millisecond, nil) // beyond the two with series of their own
	o.Stored("a", 9, 0, fmt.Errorf("%w: 10077", deferred.ErrFull))
	o.Stored("a", 9, 0, deferred.ErrUnavailable)
	o.Stored("a", 9, 0, deferred.ErrTooLarge)
	o.Stored("a", 9, 0, queue.ErrOutcomeUnknown)
	o.Stored("a", 9, 0, errors.New("what nobody expects"))
	o.Returned("a", 2)
	o.DeadLetter("a", deferred.TooOld, 1)
	o.DeadLetter("stranger", deferred.NotOurs, 1)
	o.DeadLetter("", deferred.NotOurs, 1)
	o.DeadLetterFailed("a", fmt.Errorf("a dead letter: %w", deferred.ErrFull))
	o.DeadLetterFailed("", queue.ErrOutcomeUnknown)
	o.Missing("b", 1)
	compare(t, reg, `
# HELP penstock_deferred_total Jobs that this process stored on the overflow.
# TYPE penstock_deferred_total counter
penstock_deferred_total{queue="_other"} 1
penstock_deferred_total{queue="a"} 3
penstock_deferred_total{queue="b"} 2
# HELP penstock_overflow_failures_total Messages that the overflow refused, by reason.
# TYPE penstock_overflow_failures_total counter
penstock_overflow_failures_total{reason="full"} 1
penstock_overflow_failures_total{reason="too_large"} 1
penstock_overflow_failures_total{reason="unavailable"} 1
penstock_overflow_failures_total{reason="unknown"} 2
# HELP penstock_readmitted_total Jobs that this process moved from the overflow into their queue.
# TYPE penstock_readmitted_total counter
penstock_readmitted_total{queue="_other"} 0
penstock_readmitted_total{queue="a"} 2
penstock_readmitted_total{queue="b"} 0
# HELP penstock_dead_letters_total Deferred jobs that could not be readmitted, by reason.
# TYPE penstock_dead_letters_total counter
penstock_dead_letters_total{queue="_other",reason="not_ours"} 2
penstock_dead_letters_total{queue="a",reason="too_old"} 1
# HELP penstock_dead_letter_failures_total Failed attempts to store dead letters, by reason. Until one `+
		`succeeds, no later job is readmitted.
# TYPE penstock_dead_letter_failures_total counter
penstock_dead_letter_failures_total{reason="full"} 1
penstock_dead_letter_failures_total{reason="unknown"} 1
# HELP penstock_deferred_missing_total Jobs recorded as deferred but missing on the overflow: never `+
		`acknowledged, or lost by NATS.
# TYPE penstock_deferred_missing_total counter
penstock_deferred_missing_total{queue="b"} 1
`, "penstock_deferred_total", "penstock_overflow_failures_total", "penstock_readmitted_total",
		"penstock_dead_letters_total", "penstock_dead_letter_failures_total", "penstock_deferred_missing_total")
}

// The age grows with time, has a bounded number of series, and ends with the backlog.
func TestOverflowAge(t *testing.T) {
	reg := prometheus.NewRegistry()
	o, err := metrics.NewOverflow(reg, 1)
	if err != nil {
		t.Fatal(err)
	}
	age := func() (names []string, seconds float64) {
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() != "penstock_deferred_oldest_age_seconds" {
				continue
			}
			for _, m := range f.GetMetric() {
				names, seconds = append(names, m.GetLabel()[0].GetValue()), m.GetGauge().GetValue()
			}
		}
		return names, seconds
	}
	o.Depth("a", 5, time.Now().Add(-time.Minute))
	o.Depth("b", 5, time.Now().Add(-time.Hour))
	o.Depth("c", 5, time.Now().Add(-time.Minute))
	// The oldest queues have series of their own; the others share their maximum.
	if names, seconds := age(); strings.Join(names, " ") != "_other b" || seconds < 3600 || seconds > 3700 {
		t.Errorf("%v: %v s", names, seconds)
	}
	o.Depth("b", 0, time.Time{})
	o.Depth("c", 0, time.Time{})
	if names, seconds := age(); strings.Join(names, " ") != "a" || seconds < 60 || seconds > 120 {
		t.Errorf("%v: %v s", names, seconds)
	}
	o.Depth("a", 0, time.Time{})
	if names, _ := age(); len(names) != 0 {
		t.Errorf("%v is shown, and nothing is deferred", names)
	}
	o.Depth("b", 5, time.Now().Add(time.Hour)) // another machine's clock
	if names, seconds := age(); strings.Join(names, " ") != "b" || seconds != 0 {
		t.Errorf("%v: %v s", names, seconds)
	}
}
