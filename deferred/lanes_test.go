package deferred

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/queue"
)

// What an engine would find wrong with a job is found while it is away, too.
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
		var wrong *queue.FieldError
		if x.Outcome != queue.Invalid || !errors.As(x.Err, &wrong) || wrong.Field != field {
			t.Errorf("%s: %+v", field, x)
		}
	}
	if n := onStream(t, r.stream, "penstock.deferred.>"); n != 0 {
		t.Errorf("%d were stored", n)
	}
}
