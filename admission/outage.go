package admission

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
)

const (
	// probeEvery is how often a store that is away is asked whether it is back.
	probeEvery = 250 * time.Millisecond
	// maxProbes is how many groups are probed at a time.
	maxProbes = 8
	// fullEvery is how often one take is asked of a store that was full.
	fullEvery = time.Second
	// unprobedFor is how long after it was last asked an outage is believed in: without Run somebody has to ask.
	unprobedFor = 2 * time.Second
)

// isAway reports whether an error says that the store cannot decide, and nothing about what it was asked.
func isAway(err error) bool {
	for _, e := range []error{
		queue.ErrUnavailable, queue.ErrOutcomeUnknown, queue.ErrNoStore, queue.ErrStoreFull, context.DeadlineExceeded,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// outages are the groups whose store does not answer: while one lasts nobody waits for it. Each group has its own:
// where they are on several servers, those of one that works are not kept from it.
type outages struct {
	log   *slog.Logger
	count atomic.Int64 // of groups, so that it costs nothing while there are none
	wake  chan struct{}

	mu     sync.Mutex
	groups map[string]*outage
}

type outage struct {
	probe func(context.Context) error
	err   error
	tried time.Time           // when the store was last asked
	told  map[string]struct{} // rules of which the log knows
}

func newOutages(log *slog.Logger) *outages {
	return &outages{log: log, wake: make(chan struct{}, 1), groups: map[string]*outage{}}
}

// has reports whether the group of a name is away.
func (o *outages) has(name string) bool {
	if o.count.Load() == 0 {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.groups[names.Group(name)] != nil
}

// askStore reports whether the store is to be asked about a rule: it is there, or somebody has to find out whether it
// is.
func (o *outages) askStore(rule string) bool {
	if o.count.Load() == 0 {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	out := o.groups[names.Group(rule)]
	switch {
	case out == nil:
		return true
	case out.probe == nil && time.Since(out.tried) >= fullEvery:
		out.tried = time.Now()
		return true
	}
	return time.Since(out.tried) >= unprobedFor
}

// unanswered returns the error of a store that is away while Run asks whether it is back; nil if it may be asked. A
// full store can be read.
func (o *outages) unanswered(name string) error {
	if o.count.Load() == 0 {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if out := o.groups[names.Group(name)]; out != nil && out.probe != nil && time.Since(out.tried) < unprobedFor {
		return out.err
	}
	return nil
}

// begin notes that the group of a name is away. probe asks for it again. Of a full store it would learn nothing, as
// that answers all that writes nothing: some of those who ask find out.
func (o *outages) begin(name string, err error, probe func(context.Context) error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := o.groups[names.Group(name)]
	if out == nil {
		out = &outage{probe: probe, told: map[string]struct{}{}}
		o.groups[names.Group(name)] = out
		o.count.Store(int64(len(o.groups)))
	}
	out.err, out.tried = err, time.Now()
	if errors.Is(err, queue.ErrStoreFull) {
		out.probe = nil
	}
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// end notes that the group of a name answers.
func (o *outages) end(name string) {
	if o.count.Load() == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	group := names.Group(name)
	out := o.groups[group]
	if out == nil {
		return
	}
	delete(o.groups, group)
	o.count.Store(int64(len(o.groups)))
	if len(out.told) > 0 {
		o.log.Info("the store answers again; it decides", "group", group)
	}
}

// logPolicy logs, once in an outage, what decides in the store's place.
func (o *outages) logPolicy(rule, away string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := o.groups[names.Group(rule)]
	if out == nil {
		return
	}
	if _, told := out.told[rule]; !told {
		out.told[rule] = struct{}{}
		o.log.Warn(
			"the store does not decide; the rule goes by its away", "rule", rule, "away", away, "error", fmt.Sprint(out.err),
		)
	}
}

// run looks whether stores are back, until ctx ends.
func (o *outages) run(ctx context.Context, within time.Duration) {
	for {
		if o.count.Load() == 0 {
			select {
			case <-ctx.Done():
				return
			case <-o.wake:
			}
			continue
		}
		o.probe(ctx, within)
		select {
		case <-ctx.Done():
			return
		case <-time.After(probeEvery):
		}
	}
}

// probe asks for each group that is away, a few at a time.
func (o *outages) probe(ctx context.Context, within time.Duration) {
	o.mu.Lock()
	asks := make(map[string]func(context.Context) error, len(o.groups))
	for group, out := range o.groups {
		if out.probe != nil {
			asks[group] = out.probe
		}
	}
	o.mu.Unlock()
	var running sync.WaitGroup
	slots := make(chan struct{}, maxProbes)
	for group, ask := range asks {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		running.Go(func() {
			defer func() { <-slots }()
			short, cancel := context.WithTimeout(ctx, within)
			defer cancel()
			if err := ask(short); ctx.Err() != nil || err != nil && isAway(err) {
				o.tried(group, err)
				return
			}
			o.end(group)
		})
	}
	running.Wait()
}

// tried notes that a group was asked and is still away, be it for another reason than at first: what was unreachable
// may come back empty.
func (o *outages) tried(group string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if out := o.groups[group]; out != nil {
		out.tried = time.Now()
		if errors.Is(err, queue.ErrNoStore) || errors.Is(err, queue.ErrUnavailable) {
			out.err = err
		}
	}
}
