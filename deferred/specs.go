package deferred

import (
	"context"
	"time"

	"github.com/penstock/penstock/internal/speccache"
	"github.com/penstock/penstock/queue"
)

const (
	// appendAge is how old a queue's spec is when an Appender reads it again, in the background.
	appendAge = 30 * time.Second
	// readmitAge is how old a spec may be by which a Readmitter goes: a change applies without a restart.
	readmitAge = 5 * time.Second
)

// spec is what the overflow needs to know of a queue.
type spec struct {
	overflow  string
	window    queue.Window
	retention queue.Retention
}

// specs remembers the queues that were used, and what they say while the engine cannot be asked.
type specs struct{ *speccache.Cache[spec] }

func newSpecs(get func(context.Context, string) (queue.Info, error), patience, maxAge time.Duration) specs {
	return specs{speccache.New(speccache.Options[spec]{
		Patience: patience, MaxAge: maxAge,
		Read: func(ctx context.Context, name string) (spec, int64, error) {
			info, err := get(ctx, name)
			if err != nil {
				return spec{}, 0, err
			}
			w, _ := info.Spec.Deferred.Window() // an engine keeps none that is not valid
			return spec{overflow: info.Spec.Overflow, window: w, retention: info.Spec.Retention}, info.Revision, nil
		},
	})}
}

// opens is how long it is until a queue takes jobs back, by the clock here; 0 if it does
// now, or is not known.
func (s specs) opens(name string) time.Duration {
	known, _, ok := s.Known(name)
	if !ok {
		return 0
	}
	now := time.Now()
	return known.window.Opens(now).Sub(now)
}
