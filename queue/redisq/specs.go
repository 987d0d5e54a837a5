package redisq

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/internal/check"
	"github.com/penstock/penstock/queue/names"
	"github.com/penstock/penstock/queue/ruleset"
)

// Put implements queue.Specs.
func (e *Engine) Put(ctx context.Context, spec queue.Spec, expect int64) (queue.PutResult, error) {
	return e.put(ctx, spec, expect, false)
}

// put is Put; again says that the queue had this spec before.
func (e *Engine) put(ctx context.Context, spec queue.Spec, expect int64, again bool) (queue.PutResult, error) {
	by, err := actorArg(ctx)
	if err != nil {
		return queue.PutResult{}, err
	}
	spec.Normalize()
	if err := spec.Validate(); err != nil {
		return queue.PutResult{}, err
	}
	text, err := queue.EncodeSpec(spec)
	if err != nil {
		return queue.PutResult{}, err
	}
	ruled := ruleset.Names(spec.Name, nil, spec.Rules)
	partition := e.Partition(spec.Name)
	now, err := e.wallNow(ctx, &spec, partition)
	if err != nil {
		return queue.PutResult{}, err
	}
	settings, err := specArgs(&spec, now)
	if err != nil {
		return queue.PutResult{}, err
	}
	digest, show := e.shown(string(queue.OfQueue), text, text)
	args := append([]any{
		e.instant(), spec.Name, text, expect, randomID(), queue.MaxChildren, strings.Join(ruled, " "), by, flag(again),
		digest, show,
	}, settings...)
	v, err := e.repeat(ctx, putScript, partition, args...)
	if err != nil {
		return queue.PutResult{}, err
	}
	r := list(v)
	result := queue.PutResult{Revision: r.int(), Created: r.int() == 1, Changed: r.int() == 1}
	switch code := r.int(); code {
	case 1:
		return result, fmt.Errorf("%s: %w: it is at revision %d", spec.Name, queue.ErrRevision, result.Revision)
	case 2:
		return queue.PutResult{}, check.TooManyChildren(spec.Name)
	case 3:
		return queue.PutResult{}, spec.PullParent(int(r.int()))
	case 4:
		return queue.PutResult{}, spec.PullChild()
	case 5, 6:
		i := r.int()
		if r.err != nil || i >= int64(len(ruled)) {
			return queue.PutResult{}, fmt.Errorf("%w: put of %s: a script refused a rule that was not named",
				queue.ErrCorrupt, spec.Name)
		}
		at := slices.Index(spec.Rules, ruled[i])
		if code == 5 {
			return queue.PutResult{}, ruleset.NoSuch(at, ruled[i])
		}
		return queue.PutResult{}, ruleset.NoQueueAsks(at, ruled[i])
	}
	return result, r.err
}

// Delete implements queue.Specs.
func (e *Engine) Delete(ctx context.Context, name string, expect int64, force bool) error {
	if names.Validate(name) != nil {
		return unknown(name)
	}
	by, err := actorArg(ctx)
	if err != nil {
		return err
	}
	v, err := e.once(ctx, deleteScript, e.Partition(name), e.instant(), name, expect, flag(force), by)
	if err != nil {
		return err
	}
	r := list(v)
	code, n := r.int(), r.int()
	switch code {
	case 1:
		return unknown(name)
	case 2:
		return fmt.Errorf("%s: %w: it is at revision %d", name, queue.ErrRevision, n)
	case 3:
		return fmt.Errorf("%s: %w: %d", name, queue.ErrNotEmpty, n)
	case 4:
		return fmt.Errorf("%w: %s has %d", queue.ErrHasChildren, name, n)
	}
	e.rulesets.forget(name)
	return r.err
}

// Pause implements queue.Specs.
func (e *Engine) Pause(ctx context.Context, name string, p queue.Pause) error {
	p.Normalize()
	if err := p.Validate(); err != nil {
		return err
	}
	var until any = ""
	if !p.Until.IsZero() {
		until = p.Until.UnixMicro()
	}
	now, err := e.setPaused(ctx, name, true, p.Reason, until)
	if err == nil && !now.IsZero() {
		return p.ValidateAhead(now)
	}
	return err
}

// Resume implements queue.Specs.
func (e *Engine) Resume(ctx context.Context, name string) error {
	_, err := e.setPaused(ctx, name, false, "", "")
	return err
}

// pauseField returns a pause as scripts know it: when it ends, or '1' without an end.
func pauseField(p queue.Pause) any {
	switch {
	case !p.On():
		return ""
	case p.Until.IsZero():
		return "1"
	}
	return p.Until.UnixMicro()
}

// setPaused returns the engine's time if until is not within a year from then.
func (e *Engine) setPaused(ctx context.Context, name string, paused bool, reason string, until any) (now time.Time,
	err error,
) {
	if names.Validate(name) != nil {
		return now, unknown(name)
	}
	by, err := actorArg(ctx)
	if err != nil {
		return now, err
	}
	v, err := e.repeat(ctx, pauseScript, e.Partition(name), e.instant(), name, flag(paused), by, reason, until)
	if err != nil {
		return now, err
	}
	r := list(v)
	switch r.int() {
	case 0:
		return now, unknown(name)
	case 2:
		now = micros(r.int())
	}
	return now, r.err
}
