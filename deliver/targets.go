package deliver

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/penstock/penstock/internal/speccache"
	"github.com/penstock/penstock/queue"
)

const (
	// specAge is how old a spec may be that jobs are taken in by, while the engine answers.
	specAge = time.Second
	// specPatience is how long a job waits to hear of its queue's target.
	specPatience = 800 * time.Millisecond
)

// targets are those of the queues that are in use.
type targets struct{ *speccache.Cache[usable] }

// usable is what a queue's deliver setting is good for.
type usable struct {
	raw    []byte
	target *Target // nil: it cannot be used; drainers say why
	none   bool    // a target is needed and missing
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
			if known, _, ok := t.Known(name); ok && bytes.Equal(known.raw, info.Spec.Deliver) &&
				known.none == info.Spec.NeedsTarget() {
				return known, info.Revision, nil // a setting is parsed once
			}
			u := usable{raw: bytes.Clone(info.Spec.Deliver), none: info.Spec.NeedsTarget()}
			if target, err := parse(u.raw); err == nil {
				u.target = &target
			}
			return u, info.Revision, nil
		},
	})
	return t
}

// get returns what is known of a queue's target.
func (t targets) get(ctx context.Context, name string) usable {
	u, err := t.Get(ctx, name)
	if err != nil { // the engine is away, or the caller has no time
		u, _, _ = t.Known(name)
	}
	return u
}
