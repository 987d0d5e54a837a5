package departure

import (
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

const (
	ms = time.Millisecond
	us = time.Microsecond
)

func specOf(name string) *queue.Spec {
	switch name {
	case "unknown":
		return nil
	case "unlimited":
		return &queue.Spec{Rate: leaky.Unlimited, Slack: unit.Duration(5 * ms)}
	}
	return &queue.Spec{Rate: leaky.PerSecond(100), Slack: unit.Duration(10 * ms)}
}

func TestWindowEndsWithItsLease(t *testing.T) {
	now := time.Now()
	w := Window{DepartsFrom: now, LeaseEnd: now.Add(time.Second)}
	for slack, want := range map[time.Duration]time.Duration{
		5 * ms: 5 * ms, time.Second: time.Second, time.Minute: time.Second,
	} {
		if got := w.Latest(slack).Sub(now); got != want {
			t.Errorf("slack %v: %v, want %v", slack, got, want)
		}
	}
	if s := Slack(specOf("unlimited")); s != time.Second {
		t.Errorf("without a rate: %v", s)
	}
	if s := Slack(specOf("paced")); s != 10*ms {
		t.Errorf("with a rate: %v", s)
	}
}

func TestBackoff(t *testing.T) {
	var b Backoff
	for _, n := range []int{10, 20, 40, 80, 160, 320, 640, 1000, 1000} {
		most := time.Duration(n) * time.Millisecond
		if got := b.Next(); got < most/2 || got > most {
			t.Errorf("%v, want %v at most", got, most)
		}
	}
}
