package redisq

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/internal/jobrecord"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
	"github.com/penstock/penstock/queue/unit"
)

// Get implements queue.Specs.
func (e *Engine) Get(ctx context.Context, name string) (queue.Info, error) {
	if names.Validate(name) != nil {
		return queue.Info{}, unknown(name)
	}
	infos, _, err := e.infos(ctx, nil, e.Partition(name), "get", name, "")
	if err != nil {
		return queue.Info{}, err
	}
	if len(infos) == 0 {
		return queue.Info{}, unknown(name)
	}
	return infos[0], nil
}

// Lane implements queue.Specs.
func (e *Engine) Lane(ctx context.Context, name, key string) (queue.Info, queue.LaneInfo, error) {
	var lane queue.LaneInfo
	if names.Validate(name) != nil {
		return queue.Info{}, lane, unknown(name)
	}
	if err := queue.ValidateLane(key); err != nil {
		return queue.Info{}, lane, err
	}
	digest := queue.DigestLane(key)
	infos, _, err := e.infos(ctx, &lane, e.Partition(name), "get", name, string(digest[:]))
	if err != nil {
		return queue.Info{}, lane, err
	}
	if len(infos) == 0 {
		return queue.Info{}, lane, unknown(name)
	}
	return infos[0], lane, nil
}

func unknown(name string) error {
	return fmt.Errorf("%s: %w", clip.Quote(name, 80), queue.ErrUnknownQueue)
}

func unknownJob(name, id string) error {
	return fmt.Errorf("%s in %s: %w", clip.Quote(id, 80), name, queue.ErrUnknownJob)
}

// List implements queue.Specs.
func (e *Engine) List(ctx context.Context, after string, limit int) ([]queue.Info, error) {
	list, err := merged(len(e.keys), after, limit, nameOfInfo,
		func(p int, after string, n int) ([]queue.Info, string, error) {
			return e.infos(ctx, nil, p, "list", after, n)
		})
	if err != nil {
		return nil, err
	}
	return list, e.addParents(ctx, list)
}

// addParents gives children their parents. Parents that are not in the list, because it begins behind them, are looked
// up. They are few, since a child's name begins with its parent's.
func (e *Engine) addParents(ctx context.Context, list []queue.Info) error {
	known := make(map[string]*queue.Info)
	for n := range list {
		i := &list[n]
		known[i.Spec.Name] = i
		name := names.Parent(i.Spec.Name)
		if name == "" {
			continue
		}
		parent, ok := known[name]
		if !ok {
			info, err := e.Get(ctx, name)
			switch {
			case err == nil:
				parent = &info
			case !errors.Is(err, queue.ErrUnknownQueue) && !errors.Is(err, queue.ErrCorrupt):
				return err
			}
			known[name] = parent
		}
		i.Parent = parent
	}
	return nil
}

// infos reads queues, and the lane of one of them unless lane is nil. next is the name to continue a list with, "" at
// the end.
func (e *Engine) infos(ctx context.Context, lane *queue.LaneInfo, partition int, args ...any) (infos []queue.Info,
	next string, err error,
) {
	v, err := e.ask(ctx, infoScript, partition, append([]any{e.instant()}, args...)...)
	if err != nil {
		return nil, "", err
	}
	answer := list(v)
	next = answer.text()
	for rows := answer.list(); rows.more(); {
		i, err := readInfo(rows.list(), lane)
		if err != nil && args[0] != "get" {
			e.log.Error("queue left out of a list: its stored data is not what penstock wrote", "queue",
				i.Spec.Name, "error", err)
			continue
		}
		if err != nil {
			return nil, "", err
		}
		infos = append(infos, i)
	}
	ahead := answer.duration()
	for n := range infos {
		infos[n].ToWall(ahead)
		if infos[n].Parent != nil {
			infos[n].Parent.ToWall(ahead)
		}
	}
	if lane != nil {
		lane.ToWall(ahead)
	}
	return infos, next, answer.err
}

func readInfo(r *reply, lane *queue.LaneInfo) (queue.Info, error) {
	var i queue.Info
	name := r.text()
	i.Spec.Name = name
	text := r.text()
	if r.err == nil && !r.more() {
		return i, replyErr(text)
	}
	spec, err := queue.ParseSpec([]byte(text))
	if err != nil {
		return i, fmt.Errorf("%w: spec of %s: %w", queue.ErrCorrupt, name, err)
	}
	i.Spec = spec
	i.Revision = r.int()
	i.Pause.By, i.Pause.Note = who(r.text())
	i.Pause.Reason, i.Pause.Since, i.Pause.Until = r.text(), micros(r.int()), micros(r.int())
	i.Waiting, i.Scheduled = r.int(), r.int()
	size := r.int()
	i.Held = r.int()
	i.Leased = size - i.Waiting - i.Scheduled - i.Held
	i.Lanes, i.LaneWeights = r.int(), r.int()
	i.Deferred, i.Dead = r.int(), r.int()
	i.Counters.Add(r.list().ints())
	i.OldestWaiting, i.Next = micros(r.int()), micros(r.int())
	window, count, before, now := r.int(), r.int(), r.int(), r.int()
	i.Outflow, i.Now = outflow(window, count, before, now), micros(now)
	i.Errors = readErrors(r.list())
	i.Bucket = readBucket(r)
	i.Ahead, i.DeferredCost, i.Back = r.int(), r.int(), r.int()
	i.Limits = readLimits(r.list(), spec.Limits)
	if g := r.list(); g.more() {
		i.Group = queue.GroupInfo{
			Children: g.int(), Weights: g.int(), Members: g.int(), Weight: g.int(), Waiting: g.int(), MaxCost: g.int(),
		}
	}
	if parent := r.list(); parent.more() {
		p, err := readInfo(parent, nil)
		if err != nil {
			return i, err
		}
		i.Parent = &p
	}
	i.Stop = queue.Stop{Until: micros(r.int()), Cause: queue.StopCause(r.text()), Reason: r.text()}
	i.Circuit = queue.CircuitInfo{
		Failures: r.int(), Opened: micros(r.int()), Probe: unit.Duration(r.duration()),
		Reason: r.text(),
	}
	i.Rate = readRate(r)
	for changes := r.list(); changes.more(); {
		c := changes.list()
		i.RateChanges = append(i.RateChanges, queue.RateChange{
			At: micros(c.int()), From: readRate(c), To: readRate(c), Cause: c.text(), Reason: c.text(),
		})
	}
	i.Ready, i.LanesRest, i.NextDue, i.Asked = micros(r.int()), r.int() == 1, micros(r.int()), micros(r.int())
	i.Bytes, i.MaxBytes, i.DeadBytes, i.DeferredBytes = r.int(), r.int(), r.int(), r.int()
	i.Learned, _ = queue.UnpackLearned(r.text()) // a damaged one is forgotten
	if lane != nil {
		readLane(r, lane)
	}
	return i, r.err
}

func readErrors(r *reply) (list []queue.LastError) {
	for r.more() {
		text := r.text()
		if len(text) < 7 {
			continue
		}
		var at [8]byte
		copy(at[1:], text)
		id, reason, _ := strings.Cut(text[7:], " ")
		list = append(list, queue.LastError{
			At: time.UnixMicro(int64(binary.BigEndian.Uint64(at[:]))), ID: id, Reason: reason,
		})
	}
	return list
}

func readLimits(r *reply, limits []queue.Limit) []queue.LimitState {
	var states []queue.LimitState
	for k := range limits {
		var s queue.LimitState
		if its := r.list(); !limits[k].HasQuota() {
			s.Bucket = readBucket(its)
		} else {
			if s.Window = (leaky.Window{Ends: leaky.Instant(its.int()), Used: its.int()}); its.more() {
				s.Window.Step = its.int()
			}
		}
		states = append(states, s)
	}
	return states
}

func readBucket(r *reply) leaky.Bucket {
	return leaky.Bucket{TAT: leaky.Instant(r.int()), Rem: r.int(), Last: leaky.Instant(r.int()), LastCost: r.int()}
}

// outflow returns departures a second, from counts in windows of 10 s: the present one, and as much of the one before
// as makes up a whole window.
func outflow(window, count, before, now int64) float64 {
	const width = 10_000_000
	present := now / width
	switch {
	case present == window+1:
		before, count = count, 0
	case present != window:
		return 0
	}
	part := float64(now%width) / width
	return (float64(before)*(1-part) + float64(count)) / 10
}

// Totals implements queue.Specs.
func (e *Engine) Totals(ctx context.Context) (queue.Totals, error) {
	t, _, err := e.totals(ctx)
	return t, err
}

// Drainers implements queue.Specs.
func (e *Engine) Drainers(ctx context.Context) (queue.Drainers, error) {
	_, d, err := e.totals(ctx)
	return d, err
}

func (e *Engine) totals(ctx context.Context) (t queue.Totals, drainers queue.Drainers, err error) {
	seen := map[string]*queue.Drainer{}
	for p := range e.keys {
		v, err := e.ask(ctx, totalsScript, p, e.instant())
		if err != nil {
			return t, drainers, err
		}
		r := list(v)
		t.Queues += r.int()
		t.Waiting += r.int()
		t.Scheduled += r.int()
		t.Leased += r.int()
		t.Held += r.int()
		t.Deferred += r.int()
		t.Dead += r.int()
		if last := micros(r.int()); last.After(drainers.Last) {
			drainers.Last = last
		}
		now, ahead := r.int(), r.duration()
		if at := micros(now).Add(-ahead); at.After(drainers.Now) {
			drainers.Now = at
		}
		for c := r.list(); c.more(); {
			d := queue.Drainer{Client: queue.Client{ID: c.text()}, LastSeen: micros(c.int())}
			d.Name, d.Version, d.Outflow = c.text(), c.text(), outflow(c.int(), c.int(), c.int(), now)
			if before := seen[d.ID]; before != nil {
				d.Outflow += before.Outflow
				if before.LastSeen.After(d.LastSeen) {
					d.LastSeen = before.LastSeen
				}
			}
			seen[d.ID] = &d
		}
		clock := queue.ClockState{Ahead: ahead, Jumps: r.int(), Jumped: micros(r.int())}
		if !clock.Jumped.IsZero() {
			clock.Jumped = clock.Jumped.Add(-ahead)
		}
		drainers.Clock = worse(drainers.Clock, clock)
		if r.err != nil {
			return t, drainers, r.err
		}
	}
	byName := func(a, b *queue.Drainer) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) }
	for _, d := range slices.SortedFunc(maps.Values(seen), byName) {
		drainers.Seen = append(drainers.Seen, *d)
	}
	return t, drainers, nil
}

// worse merges the clock states of two partitions. Each counts the jumps of its server for itself.
func worse(a, b queue.ClockState) queue.ClockState {
	if b.Ahead.Abs() > a.Ahead.Abs() {
		a.Ahead = b.Ahead
	}
	a.Jumps = max(a.Jumps, b.Jumps)
	if b.Jumped.After(a.Jumped) {
		a.Jumped = b.Jumped
	}
	return a
}

// Job implements queue.Jobs.
func (e *Engine) Job(ctx context.Context, name, id string) (queue.JobInfo, error) {
	i := queue.JobInfo{Queue: name, ID: id}
	if names.Validate(name) != nil {
		return i, unknown(name)
	}
	if names.ValidateID(id) != nil {
		return i, unknownJob(name, id)
	}
	v, err := e.ask(ctx, jobScript, e.Partition(name), e.instant(), name, id)
	if err != nil {
		return i, err
	}
	r := list(v)
	switch r.int() {
	case 0:
		return i, unknown(name)
	case 1:
		return i, unknownJob(name, id)
	}
	i.State, i.Cost, i.Attempts, i.AppendedAt = queue.State(r.int()), r.int(), int(r.int()), micros(r.int())
	i.DueAt, i.EndedAt, i.Reason = micros(r.int()), micros(r.int()), r.text()
	if i.State == queue.Held {
		i.DueAt, i.HeldAt = time.Time{}, i.DueAt
	}
	i.Position = r.int()
	i.ETA = queue.ETA{At: micros(r.int()), Exact: r.int() == 1}
	if record := r.text(); record != "" && r.err == nil {
		r.err = jobrecord.UnpackContent([]byte(record), &i)
	}
	if past := r.text(); r.err == nil {
		i.Timeline, r.err = jobrecord.UnpackTimeline([]byte(past))
	}
	if last := (queue.Attempt{At: micros(r.int()), Drainer: r.text()}); !last.At.IsZero() {
		i.AddLast(last)
	}
	i.Why = queue.Why{By: cause.Cause(r.text()), Until: micros(r.int()), Reason: r.text(), Queue: r.text()}
	i.Why.Who, i.Why.Note = who(r.text())
	if i.Why.By == cause.Deferred && r.err == nil {
		spec, err := queue.ParseSpec([]byte(i.Why.Reason))
		if err != nil {
			return i, fmt.Errorf("%w: spec of %s: %w", queue.ErrCorrupt, name, err)
		}
		i.Why = spec.Deferred.WhyDeferred(i.Why.Until)
	}
	if by := i.Why.By; (by == cause.Hours || by == cause.LaneHours) && r.err == nil {
		spec, err := queue.ParseSpec([]byte(i.Why.Reason))
		if err != nil {
			return i, fmt.Errorf("%w: spec of %s: %w", queue.ErrCorrupt, name, err)
		}
		i.Why.Reason = spec.Hours.String()
		if by == cause.LaneHours {
			i.Why.Reason = spec.Lanes.Of(i.Lane).Hours.String()
		}
	}
	if i.Why.By == cause.Quota && r.err == nil {
		if i.Why.Reason, r.err = whyRamp(i.Why.Reason); r.err != nil {
			return i, fmt.Errorf("%w: spec of %s: %w", queue.ErrCorrupt, name, r.err)
		}
	}
	i.ToWall(r.duration())
	return i, r.err
}
