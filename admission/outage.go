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
	// probeEvery is the time between probes of a store that is away.
	probeEvery = 250 * time.Millisecond
	// maxProbes is how many groups are probed at a time.
	maxProbes = 8
	// fullEvery is how often a full store is asked one take.
	fullEvery = time.Second
	// unprobedFor is how long an outage is trusted after the last probe: without Run a caller must probe.
	unprobedFor = 2 * time.Second
)

// isAway reports whether an error means that the store cannot decide, rather than something about the request.
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

// outages has the groups whose store does not answer; no caller waits for them. Groups may be on different servers,
// and the groups of a working server must not suffer.
type outages struct {
	log   *slog.Logger
	count atomic.Int64 // number of groups: without outages a check costs nothing
	wake  chan struct{}

	mu     sync.Mutex
	groups map[string]*outage
}

type outage struct {
	probe  func(context.Context) error
	err    error
	tried  time.Time           // when the store was last asked
	logged map[string]struct{} // rules whose policy was logged
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

// askStore reports whether to ask the store about a rule: it is there, or the caller has to find out.
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

// unanswered returns the error of a store that is away while Run probes it, or nil if the store may be asked. A full
// store can be read.
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

// begin records that the group of a name is away, with a probe for it. A full store answers everything that writes
// nothing, so it has no probe: some callers find out instead.
func (o *outages) begin(name string, err error, probe func(context.Context) error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := o.groups[names.Group(name)]
	if out == nil {
		out = &outage{probe: probe, logged: map[string]struct{}{}}
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

// end records that the group of a name answers.
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
	if len(out.logged) > 0 {
		o.log.Info("the store answers again and decides", "group", group)
	}
}

// logPolicy logs once per outage what decides instead of the store.
func (o *outages) logPolicy(rule, away string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := o.groups[names.Group(rule)]
	if out == nil {
		return
	}
	if _, logged := out.logged[rule]; !logged {
		out.logged[rule] = struct{}{}
		o.log.Warn(
			"the store does not decide; the rule's away applies", "rule", rule, "away", away, "error", fmt.Sprint(out.err),
		)
	}
}

// run probes stores until ctx ends.
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

// probe probes the groups that are away, a few at a time.
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

// tried records that a group is still away, maybe for a different reason than at first: a store may come back empty.
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
