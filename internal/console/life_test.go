package console

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

func TestLifeOfAJob(t *testing.T) {
	t0 := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(seconds int) *time.Time {
		i := t0.Add(time.Duration(seconds) * time.Second)
		return &i
	}
	attempt := func(o queue.AttemptOutcome, from, to int) wire.Attempt {
		return wire.Attempt{At: at(from), EndedAt: at(to), Outcome: o}
	}
	many := []wire.Attempt{}
	for i := range queue.MaxTimeline {
		many = append(many, attempt(queue.AttemptFailed, 10*i, 10*i))
	}
	for _, c := range []struct {
		name string
		job  wire.Job
		want string
	}{
		{"unknown", wire.Job{State: queue.Waiting}, ""},
		{
			"paused",
			wire.Job{State: queue.Waiting, AppendedAt: at(0), Why: &wire.Why{By: cause.Paused}},
			"waits for the queue to be resumed 0 to 100 lasts",
		},
		{
			"delivered at once",
			wire.Job{
				State: queue.Delivered, AppendedAt: at(0), EndedAt: at(3), Attempts: 1,
				Timeline: []wire.Attempt{attempt(queue.AttemptDelivered, 2, 3)},
			},
			"waits for its turn 0 to 2, delivered 2 to 3",
		},
		{
			"delivered after failures",
			wire.Job{
				State: queue.Delivered, AppendedAt: at(0), EndedAt: at(30), Attempts: 3,
				Timeline: []wire.Attempt{attempt(queue.AttemptDelivered, 20, 30)},
			},
			"waits, and earlier attempts 0 to 20, delivered 20 to 30",
		},
		{
			"dead",
			wire.Job{
				State: queue.Dead, AppendedAt: at(0), EndedAt: at(12), Attempts: 2,
				Timeline: []wire.Attempt{attempt(queue.AttemptFailed, 0, 1), attempt(queue.AttemptDied, 11, 12)},
			},
			"retry 0 to 1, waits for the next attempt 1 to 11, dead 11 to 12",
		},
		{
			"replayed",
			wire.Job{
				State: queue.Waiting, AppendedAt: at(50), Attempts: 1, Why: &wire.Why{By: cause.Rate},
				Timeline: []wire.Attempt{attempt(queue.AttemptDied, 1, 2)},
			},
			"dead 1 to 2, waits for its turn at the queue's rate 2 to 100 lasts",
		},
		{
			"under way",
			wire.Job{
				State: queue.Leased, AppendedAt: at(0),
				Timeline: []wire.Attempt{attempt(queue.AttemptThrottled, 1, 2), {At: at(9), Outcome: queue.UnderWay}},
			},
			"waits for its turn 0 to 1, throttled 1 to 2, waits: the receiver throttled 2 to 9, under_way 9 to 100 lasts",
		},
		{
			"departing",
			wire.Job{State: queue.Leased, AppendedAt: at(0), Timeline: []wire.Attempt{{At: at(101)}}},
			"waits for its turn 0 to 101, under_way 101 to 101 lasts",
		},
		{
			"cancelled",
			wire.Job{State: queue.Cancelled, AppendedAt: at(0), EndedAt: at(5)},
			"waits for its turn 0 to 5",
		},
		{
			"held",
			wire.Job{
				State: queue.Held, AppendedAt: at(0), Why: &wire.Why{By: cause.Held},
				Timeline: []wire.Attempt{attempt(queue.AttemptUnknown, 1, 2)},
			},
			"waits for its turn 0 to 1, unknown 1 to 2, waits for a person's decision: it may have been sent 2 to 100 lasts",
		},
	} {
		life := lifeOf(&c.job, *at(100))
		var got []string
		for _, s := range life {
			text := fmt.Sprintf("%s %.0f to %.0f", s.What, s.From.Sub(t0).Seconds(), s.To.Sub(t0).Seconds())
			if s.Lasts {
				text += " lasts"
			}
			got = append(got, text)
			if s.X < 0 || s.Width <= 0 || s.X > 1000 {
				t.Errorf("%s: %s stands at %v, %v wide", c.name, s.What, s.X, s.Width)
			}
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, text, c.want)
		}
	}
	crowded := lifeOf(&wire.Job{State: queue.Dead, AppendedAt: at(0), EndedAt: at(190), Timeline: many}, *at(300))
	if crowded[1].What != "waits, and attempts that are not kept" {
		t.Errorf("after the first of many attempts: %q", crowded[1].What)
	}
}
