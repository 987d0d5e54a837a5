package prove

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// layout describes what a run makes, with the lanes in each queue: one queue, several independent queues, or a parent
// and children that carry the load.
type layout struct {
	specs  []queue.Spec // the parent first
	levels []level      // queues and lanes with a rate below the first queue's
	feeds  []*feed      // one for each loaded queue
	open   []openSpan   // hours of the first queue; nil without them
}

// level is one queue or one lane, judged by its own rate.
type level struct {
	kind string // queue or lane
	name string
	rate leaky.Rate
	of   func(f flow) bool // whether a flow counts toward its law
}

// flow is the queue and lane of a job.
type flow struct{ queue, lane string }

// share returns the rate of part i of n parts that share the rate whole. Every second part gets half of its fair share,
// so that its own rate limits it; the others are limited by the common rate.
func share(whole leaky.Rate, i, n int) (leaky.Rate, error) {
	count, per := whole.Fraction()
	if i%2 == 1 {
		return leaky.NewRate(count, time.Duration(2*int64(n)*per)*time.Microsecond)
	}
	return leaky.NewRate(2*count, time.Duration(int64(n)*per)*time.Microsecond)
}

// newLayout plans everything before the run, so that the laws are fixed by then.
func newLayout(o *Options, name, url string) (*layout, error) {
	s := &layout{}
	if o.Queues > 1 {
		for i := range o.Queues {
			if err := s.addLevel(o, fmt.Sprintf("%s-%d", name, i+1), o.Rate, url, ""); err != nil {
				return nil, err
			}
		}
		return s, nil
	}
	first, err := o.spec(name, o.Rate, url)
	if err != nil {
		return nil, err
	}
	if l := o.quota(); l.HasQuota() {
		first.Limits = append(first.Limits, l)
	}
	if o.limit != nil {
		first.Limits = append(first.Limits, o.limit.limit())
	}
	if o.Hours {
		s.open = openSpans(time.Now())
		first.Hours = hoursOf(s.open)
	}
	if o.Children == 0 {
		return s, s.add(o, first, "")
	}
	s.specs = append(s.specs, first)
	for i := range o.Children {
		rate, err := share(o.Rate, i, o.Children)
		if err != nil {
			return nil, fmt.Errorf("children: %w", err)
		}
		if err := s.addLevel(o, fmt.Sprintf("%s.c%d", name, i+1), rate, url, fmt.Sprintf("c%d/", i+1)); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// addLevel adds a queue that is judged by its own rate.
func (s *layout) addLevel(o *Options, name string, rate leaky.Rate, url, prefix string) error {
	spec, err := o.spec(name, rate, url)
	if err != nil {
		return err
	}
	s.levels = append(s.levels, level{"queue", name, rate, func(f flow) bool { return f.queue == name }})
	return s.add(o, spec, prefix)
}

// add adds a queue that carries load through its lanes.
func (s *layout) add(o *Options, spec queue.Spec, prefix string) error {
	f := newFeed(o.Store, spec.Name)
	if f.limit = o.limit; f.limit != nil {
		spec.MaxInFlight = f.limit.inFlight
	}
	defer func() {
		spec.Capacity = max(1000, 2*f.depth())
		spec.Normalize()
		s.specs, s.feeds = append(s.specs, spec), append(s.feeds, f)
	}()
	if o.Lanes == 0 {
		f.lane("", spec.Rate)
		return nil
	}
	spec.Lanes.Overrides = map[string]queue.LaneRule{}
	for i := range o.Lanes {
		rate, err := share(spec.Rate, i, o.Lanes)
		if err != nil {
			return fmt.Errorf("lanes: %w", err)
		}
		key := fmt.Sprintf("lane-%d", i+1)
		spec.Lanes.Overrides[key] = queue.LaneRule{Rate: rate}
		s.levels = append(s.levels, level{"lane", prefix + key, rate, func(f flow) bool { return f == flow{spec.Name, key} }})
		f.lane(key, rate)
	}
	return nil
}

func (o *Options) spec(name string, rate leaky.Rate, url string) (queue.Spec, error) {
	to := map[string]any{"url": url + "/" + name, "timeout": "5s"}
	if o.Limit.Unit != "" {
		to["actual"] = map[string]any{o.Limit.Unit: map[string]any{"header": actualHeader}}
	}
	deliver, err := json.Marshal(map[string]any{"http": to})
	if err != nil {
		return queue.Spec{}, fmt.Errorf("write the target as JSON: %w", err)
	}
	spec := queue.Spec{
		Name: name, Rate: rate, Lease: unit.Duration(Lease), Slack: unit.Duration(o.Slack), Deliver: deliver,
	}
	spec.Retry.MaxAttempts = queue.MaxMaxAttempts // a job that dies of injected faults is no loss of the store's
	spec.Retry.MinBackoff = unit.Duration(100 * time.Millisecond)
	spec.Retry.MaxBackoff = unit.Duration(time.Second)
	spec.Normalize()
	return spec, nil
}

// slowest returns the longest interval of any level.
func (s *layout) slowest() time.Duration {
	var most time.Duration
	for _, l := range s.levels {
		most = max(most, l.rate.Interval())
	}
	return most
}
