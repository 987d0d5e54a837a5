package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock/penstock/deferred"
	"github.com/penstock/penstock/internal/cli/show"
)

const (
	// oldDeferred is half of the default max_age, after which deferred jobs are dead.
	oldDeferred = 12 * time.Hour
	// fullShare is the used share of a stream's bytes from which it is a warning.
	fullShare = 0.8
)

// overflow checks that deferred jobs are safe and return.
func (v *visit) overflow(ctx context.Context) {
	if v.Overflow == nil {
		return
	}
	streams, err := v.Overflow(ctx)
	switch {
	case errors.Is(err, deferred.ErrUnfit):
		v.wrong("nats account info", "%v", err)
		return
	case err != nil:
		v.wrong("nats rtt", "%v", err)
		return
	}
	waiting, age := uint64(0), time.Duration(0)
	for n, s := range streams {
		dead := n > 0
		if s.Err != nil {
			v.wrong("nats stream edit "+s.Name, "%v", s.Err)
		}
		used := 0.0
		if s.MaxBytes > 0 {
			used = float64(s.Bytes) / float64(s.MaxBytes)
		}
		edit := fmt.Sprintf("nats stream edit %s --max-bytes %d", s.Name, 2*max(0, s.MaxBytes))
		switch {
		case used >= 0.99:
			v.wrong(edit, "%s is full", s.Name)
		case used >= fullShare:
			v.warn(edit, "%s is %.0f%% full", s.Name, 100*used)
		}
		switch {
		case s.Missing:
			v.warn("ingress --redis URL --nats URL", "there is no stream %s: a process started with --nats creates it",
				s.Name)
		case dead && s.Messages > 0:
			v.warn("nats stream view "+s.Name, "%s holds %d deferred jobs that could not be readmitted", s.Name, s.Messages)
		case !dead && s.Messages > 0:
			waiting, age = s.Messages, max(0, s.Time.Sub(s.Oldest)).Round(time.Second)
		}
	}
	if age > oldDeferred {
		v.warn("penstock queue ls", "the oldest deferred job has waited for %v: raise the rate of its queue, or max_age", age)
	}
	if v.silent() {
		v.ok("nats holds %s; the oldest has waited for %v", show.Count(int64(waiting), "deferred job"), age)
	}
}
