package deliver

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/penstock/penstock/queue"
)

const (
	// specFresh is how long a spec that was read is gone by without asking. Every queue in use is read once in
	// that time, by one of those who use it.
	specFresh = time.Second
	// specPatience is how long a job waits to hear of its queue's target.
	specPatience = 800 * time.Millisecond
)

// Specs is asked for the settings of queues; every queue.Engine can be.
type Specs interface {
	// Get returns a queue; see queue.Specs.
	Get(ctx context.Context, name string) (queue.Info, error)
}

// targets are those of the queues that are in use.
type targets struct {
	specs Specs
	parse func(raw []byte) (Target, error)

	mu    sync.Mutex
	known map[string]*known
}

// known is what is known of a queue's target. It is guarded by the mutex of targets.
type known struct {
	raw    []byte
	target *Target   // nil: none that can be used, or not known
	looked time.Time // when the last look ended
	look   *look     // the present one
}

// look is one look at a queue's spec, for which others may wait. The rest is written before done is closed.
type look struct {
	done   chan struct{}
	over   bool // it was not given up
	target *Target
}

func newTargets(specs Specs, kinds *Kinds) *targets {
	return &targets{specs: specs, parse: func(raw []byte) (Target, error) { return kinds.Parse(raw) }, known: make(map[string]*known)}
}

// get returns the target of a queue, nil if there is none that can be used. It asks for one that was not looked at
// for a second; of many who use a queue one asks, and the others go by what is known unless that is
// older still.
func (t *targets) get(ctx context.Context, name string) *Target {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		k := t.known[name]
		if k == nil {
			if queue.ValidateName(name) != nil {
				return nil
			}
			k = t.add(name)
		}
		age := time.Since(k.looked)
		switch {
		case age < specFresh, k.look != nil && age < 2*specFresh, ctx.Err() != nil:
			return k.target
		case k.look == nil:
			return t.ask(ctx, name, k)
		}
		if l := k.look; t.wait(ctx, l) && l.over {
			return l.target
		}
	}
}

// wait waits for somebody else's look, without the mutex.
func (t *targets) wait(ctx context.Context, l *look) bool {
	t.mu.Unlock()
	defer t.mu.Lock()
	select {
	case <-l.done:
		return true
	case <-ctx.Done():
		return false
	}
}

func (t *targets) add(name string) *known {
	if len(t.known) >= maxTargets {
		for other := range t.known { // any: it is read again when it is used
			delete(t.known, other)
			break
		}
	}
	k := &known{}
	t.known[name] = k
	return k
}

// ask looks at a queue's spec, without the mutex.
func (t *targets) ask(ctx context.Context, name string, k *known) *Target {
	l := &look{done: make(chan struct{})}
	k.look = l
	t.mu.Unlock()
	short, cancel := context.WithTimeout(ctx, specPatience)
	info, err := t.specs.Get(short, name)
	cancel()
	t.mu.Lock()
	defer close(l.done)
	k.look = nil
	switch {
	case errors.Is(err, queue.ErrUnknownQueue):
		if t.known[name] == k {
			delete(t.known, name) // or whoever asks for queues that are not there would push out those that are
		}
		k.target = nil
	case err == nil:
		t.read(k, info.Spec.Deliver)
	case ctx.Err() != nil:
		return k.target // the caller is: it says nothing
	} // else the engine is away, and what is known stays, however old
	k.looked, l.over, l.target = time.Now(), true, k.target
	return k.target
}

// read parses a setting once, for as long as it stays the same.
func (t *targets) read(k *known, raw []byte) {
	if k.raw != nil && bytes.Equal(k.raw, raw) {
		return
	}
	k.raw, k.target = append([]byte{}, raw...), nil
	if target, err := t.parse(raw); err == nil { // why it cannot be used, drainers say
		k.target = &target
	}
}
