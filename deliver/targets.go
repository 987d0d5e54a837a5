package deliver

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/penstock/penstock/deliver/usage"
	"github.com/penstock/penstock/internal/speccache"
	"github.com/penstock/penstock/queue"
)

const (
	// specAge is the maximum age of a spec while the engine answers.
	specAge = time.Second
	// specPatience is how long a job waits for the spec of its queue.
	specPatience = 800 * time.Millisecond
)

// targets caches the targets of queues.
type targets struct{ *speccache.Cache[usable] }

// usable is a queue's deliver setting, as far as it can be used.
type usable struct {
	raw    []byte
	target *Target // nil if it cannot be used; drainers report why
	none   bool    // the queue needs a target and has none

	estimates *usage.Estimates // where payloads state costs; nil if nowhere
}

func newTargets(specs queue.SpecReader, parse func(json.RawMessage) (Target, error)) targets {
	var t targets
	t.Cache = speccache.New(speccache.Options[usable]{
		Patience: specPatience, MaxAge: specAge, FailureAge: specAge, Max: maxTargets,
		Read: func(ctx context.Context, name string) (usable, int64, error) {
			info, err := specs.Get(ctx, name)
			if err != nil {
				return usable{}, 0, err
			}
			estimates := estimatesOf(&info)
			if known, _, ok := t.Known(name); ok && bytes.Equal(known.raw, info.Spec.Deliver) &&
				known.none == info.Spec.NeedsTarget() {
				known.estimates = estimates
				return known, info.Revision, nil // parsed before
			}
			u := usable{raw: bytes.Clone(info.Spec.Deliver), none: info.Spec.NeedsTarget(), estimates: estimates}
			if target, err := parse(u.raw); err == nil {
				u.target = &target
			}
			return u, info.Revision, nil
		},
	})
	return t
}

func estimatesOf(i *queue.Info) *usage.Estimates {
	if i.Parent == nil {
		return usage.EstimatesOf(&i.Spec, nil)
	}
	return usage.EstimatesOf(&i.Spec, &i.Parent.Spec)
}

// get returns the target of a queue, or the last one known if the engine does not answer.
func (t targets) get(ctx context.Context, name string) usable {
	u, err := t.Get(ctx, name)
	if err != nil {
		u, _, _ = t.Known(name)
	}
	return u
}
