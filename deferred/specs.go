package deferred

import (
	"context"
	"time"

	"github.com/penstock/penstock/internal/speccache"
	"github.com/penstock/penstock/queue"
)

const (
	// appendAge is how old a queue's spec is when an Appender reads it again in the background.
	appendAge = 30 * time.Second
	// readmitAge is the maximum age of a spec that a Readmitter uses: changes apply without a restart.
	readmitAge = 5 * time.Second
)

// spec is the part of a queue's spec that the overflow needs.
type spec struct {
	overflow  string
	hours     *queue.Schedule
	retention queue.Retention
}

// specs caches the specs of queues in use, also for times when the engine cannot be reached.
type specs struct{ *speccache.Cache[spec] }

func newSpecs(get func(context.Context, string) (queue.Info, error), patience, maxAge time.Duration) specs {
	return specs{speccache.New(speccache.Options[spec]{
		Patience: patience, MaxAge: maxAge,
		Read: func(ctx context.Context, name string) (spec, int64, error) {
			info, err := get(ctx, name)
			if err != nil {
				return spec{}, 0, err
			}
			h, _ := info.Spec.Deferred.Schedule() // engines only keep valid ones
			return spec{overflow: info.Spec.Overflow, hours: h, retention: info.Spec.Retention}, info.Revision, nil
		},
	})}
}

// opens returns how long until a queue takes jobs back, by this machine's clock; 0 if it does now, or if unknown.
func (s specs) opens(name string) time.Duration {
	known, _, ok := s.Known(name)
	if !ok {
		return 0
	}
	now := time.Now()
	return known.hours.Opens(now).Sub(now)
}
