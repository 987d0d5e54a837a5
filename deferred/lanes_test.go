package deferred

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

// A job keeps its lane, priority and schedule on the overflow, whether the engine set it aside or it bypassed an
// engine that was away.
func TestLanesComeBack(t *testing.T) {
	for _, away := range []bool{false, true} {
		t.Run(fmt.Sprintf("away %v", away), func(t *testing.T) {
			r := newRig(t)
			putSpec(t, r, specFor("a", 8)) // four places are for returning jobs
			f := &faulty{Engine: r}
			a := newAppender(t, f, r.stream)
			defers(t, a, "a", numbered(8))
			known(t, a, "a")
			if away {
				f.set(queue.ErrUnavailable, false, false)
			}
			due := time.Now().Add(24 * time.Hour).UTC().Truncate(time.Microsecond)
			laned, scheduled := job("a", "laned"), job("a", "scheduled")
			laned.Lane, laned.Priority = "é.example.com", 9
			scheduled.Lane, scheduled.NotBefore = "other", due
			for _, j := range []queue.Job{laned, scheduled} {
				if x := one(t, a, j); x.Outcome != queue.Accepted || x.State != queue.Deferred {
					t.Fatalf("%+v", x)
				}
			}
			other := laned
			other.Lane = "another"
			if x := one(t, a, other); !away && x.Outcome != queue.Conflict {
				t.Errorf("the same job in another lane: %+v", x)
			}

			f.set(nil, false, false)
			runReadmitter(t, r.readmitter())
			left := leave(t, r, 8)
			await.Until(t, "both are back", func() bool { return r.info(t, "a").Scheduled == 1 && r.info(t, "a").Waiting == 1 })
			r.idle(t, "a")
			if !slices.Equal(left, numbered(8)) {
				t.Errorf("left %v", left)
			}
			for id, want := range map[string]queue.JobInfo{
				"laned":     {State: queue.Waiting, Lane: laned.Lane, Priority: 9},
				"scheduled": {State: queue.Scheduled, Lane: "other", DueAt: due},
			} {
				got, err := r.Job(t.Context(), "a", id)
				if err != nil || got.State != want.State || got.Lane != want.Lane || got.Priority != want.Priority ||
					!got.DueAt.Equal(want.DueAt) {
					t.Errorf("%s: %+v, %v", id, got, err)
				}
			}
			letters := 0
			if away {
				letters = 1 // the same id in another lane, judged when it came back
			}
			if n := len(deadLetters(t, r.stream)); n != letters {
				t.Errorf("%d dead letters, want %d", n, letters)
			}
		})
	}
}

// Invalid jobs are refused while the engine is away, too.
func TestLanesWithoutEngine(t *testing.T) {
	r := newRig(t)
	putSpec(t, r, specFor("a", 4))
	f := &faulty{Engine: r}
	a := newAppender(t, f, r.stream)
	known(t, a, "a")
	f.set(queue.ErrUnavailable, false, false)
	soon := time.Now().Add(time.Hour)
	for field, change := range map[string]func(*queue.Job){
		"lane":       func(j *queue.Job) { j.Lane = strings.Repeat("k", queue.MaxLaneBytes+1) },
		"priority":   func(j *queue.Job) { j.Priority = queue.MaxPriority + 1 },
		"not_before": func(j *queue.Job) { j.NotBefore = time.Now().Add(queue.MaxAhead + time.Hour) },
		"expires_at": func(j *queue.Job) { j.NotBefore, j.ExpiresAt = soon, soon },
	} {
		j := job("a", field)
		change(&j)
		x := one(t, a, j)
		var wrong *invalid.Error
		if x.Outcome != queue.Invalid || !errors.As(x.Err, &wrong) || wrong.Field != field {
			t.Errorf("%s: %+v", field, x)
		}
	}
	if n := onStream(t, r.stream, "penstock.deferred.>"); n != 0 {
		t.Errorf("%d were stored", n)
	}
}
