package prove

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// RuleStore is the part of an installation that a run of rules uses, beside the ingresses that it asks.
type RuleStore interface {
	// MakeRule makes a rule that must not exist.
	MakeRule(ctx context.Context, rule rules.Rule) error
	// RemoveRule removes a rule and all of its tallies.
	RemoveRule(ctx context.Context, name string) error
}

const (
	// pressure is the ratio of the load to the rules' rate.
	pressure = 4
	// mostPassed limits the number of allowed takes under one key, because judging takes quadratic time.
	mostPassed = 10_000
)

// RulesOptions are the options of a run of rules.
type RulesOptions struct {
	Store RuleStore
	// Ingress returns the command that starts ingress i, which is then asked at URLs[i].
	Ingress func(i int) Command
	URLs    []string
	// Rate is each rule's rate under each key, Keys the number of keys, Callers the number of concurrent callers. 0
	// means 3 keys and 16 callers.
	Rate          leaky.Rate
	Keys, Callers int
	Duration      time.Duration
	Faults        Faults
	// Every is the time between faults. 0 means 3 s.
	Every time.Duration
	// Delta is the law's tolerance for two clocks; 0 means DefaultDelta. Their possible drift in the run is added to
	// it.
	Delta time.Duration
	// Forgets is how much of the most recent time a killed ingress may forget. 0 means nothing.
	Forgets time.Duration
	// Log gets the output of the ingresses; nil discards it.
	Log io.Writer
	// Progress is called now and then with the number of takes asked and allowed.
	Progress func(elapsed time.Duration, asked, allowed int64, marks []Mark)
}

// Validate sets defaults and checks the options. Its errors begin with the name of the option.
func (o *RulesOptions) Validate() error {
	o.Every = cmp.Or(o.Every, 3*time.Second)
	o.Delta = cmp.Or(o.Delta, DefaultDelta)
	if o.Log == nil {
		o.Log = io.Discard
	}
	if o.Keys == 0 {
		o.Keys = 3
	}
	if o.Callers == 0 {
		o.Callers = 16
	}
	most := o.Rate.PerSecond() * o.Duration.Seconds()
	switch {
	case o.Rate.Unlimited():
		return errors.New("rate: unlimited refuses nothing; give a rate")
	case len(o.URLs) < 1 || len(o.URLs) > 64:
		return fmt.Errorf("ingresses: %d must be from 1 to 64", len(o.URLs))
	case o.Keys < 1 || o.Keys > 64:
		return fmt.Errorf("keys: %d must be from 1 to 64", o.Keys)
	case o.Callers < 1 || o.Callers > 1024:
		return fmt.Errorf("callers: %d must be from 1 to 1024", o.Callers)
	case o.Duration < time.Second:
		return fmt.Errorf("duration: %v must be at least 1s", o.Duration)
	case o.Faults != NoFaults && o.Duration <= o.Every:
		return fmt.Errorf("duration: %v must be longer than the time between faults, %v", o.Duration, o.Every)
	case most > mostPassed:
		return fmt.Errorf(
			"rate: at %s some %.0f pass under each key in %v, more than the %d that can be judged; lower the rate or the "+
				"duration",
			o.Rate, most, o.Duration, mostPassed,
		)
	case most < 20:
		return fmt.Errorf(
			"rate: at %s only %.0f pass under each key in %v, too few for a proof; raise the rate or the duration", o.Rate, most,
			o.Duration,
		)
	}
	switch o.Faults {
	case NoFaults, Kill, Pause, Restart:
	default:
		return fmt.Errorf("faults: %q must be none, kill, pause or restart", o.Faults)
	}
	return nil
}

// asked is a rule of a run with its law, which is fixed in advance.
type asked struct {
	rule rules.Rule
	law  law.Admission
}

// span returns the limit and period of rules that count in windows. The limit is at least five.
func (o *RulesOptions) span() (limit int64, period time.Duration) {
	per := o.Rate.PerSecond()
	limit = max(5, int64(math.Round(per)))
	return limit, time.Duration(float64(limit) / per * float64(time.Second)).Round(time.Millisecond)
}

// window is the width of the spans in the report: half of the rules' period, since a span of a full period may touch
// three windows.
func (o *RulesOptions) window() time.Duration {
	_, period := o.span()
	return period / 2
}

// bound returns an algorithm's numbers for about the rate of the run.
func (o *RulesOptions) bound(a leaky.Algorithm) (b rules.Bound) {
	limit, period := o.span()
	interval := max(leaky.MinPeriod, o.Rate.Interval().Round(time.Millisecond))
	numbers := rules.Numbers(a)
	for _, number := range numbers {
		switch number {
		case "rate":
			b.Rate = o.Rate
		case "burst":
			b.Burst = max(2, limit/4)
		case "limit":
			b.Limit = limit
		case "period":
			b.Period = unit.Duration(interval)
			if slices.Contains(numbers, "limit") {
				b.Period = unit.Duration(period)
			}
		case "ttl":
			b.TTL = unit.Duration(period)
		}
	}
	return b
}

// rules returns the rules of a run: one of each algorithm that limits a rate, which concurrency does not. Each has a
// group of its own, so that they are spread over partitions.
func (o *RulesOptions) rules(name string) ([]asked, error) {
	var list []asked
	for _, a := range rules.Algorithms() {
		r := rules.Rule{Name: fmt.Sprintf("%s-%s", name, a), Algorithm: a, Bound: o.bound(a), Key: "{lane}"}
		if rules.NeedsUnit(a) {
			r.Unit = "tokens"
		}
		r.Normalize()
		if err := r.Validate(); err != nil {
			return nil, fmt.Errorf("rate: makes no rule of %s: %w", a, err)
		}
		by, err := r.Limiter(a)
		if err != nil {
			return nil, err
		}
		if by.Most(0) < 0 {
			continue // it limits what is held at once, not the rate
		}
		drift := o.Duration / 2000 // of two machines' clocks in the run: 500 ppm
		list = append(list, asked{r, law.Admission{By: by, Delta: o.Delta + drift}})
	}
	return list, nil
}

// RunRules makes rules, lets callers ask them at several ingresses, and disturbs the ingresses for the duration. Then
// it removes the rules and judges the allowed takes. An error means that there is no verdict.
func RunRules(ctx context.Context, o RulesOptions) (*RulesReport, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	list, err := o.rules("prove-" + queue.NewID())
	if err != nil {
		return nil, err
	}
	q, err := newQuestions(&o, list)
	if err != nil {
		return nil, err
	}
	fl := &fleet{what: "ingress", command: o.Ingress, log: o.Log}
	defer fl.close(patience)
	for i := range o.URLs {
		if err := fl.start(i); err != nil {
			return nil, err
		}
	}
	defer o.remove(ctx, fl, list)
	if err := o.begin(ctx, fl, q.doors, list); err != nil {
		return nil, err
	}
	q.begun = time.Now()
	sab := &faultInjector{fleet: fl, now: q.now, faults: o.Faults, processes: len(o.URLs), every: o.Every, lease: Lease}
	err = disturb(ctx, o.Duration, sab, q.run, func(elapsed time.Duration) {
		if o.Progress != nil {
			asked, allowed := q.count()
			o.Progress(elapsed, asked, allowed, sab.injected())
		}
	})
	if err != nil {
		return nil, err
	}
	if err := fl.allUp(); err != nil {
		return nil, err
	}
	return o.judge(q, sab.injected()), nil
}

// begin makes the rules and waits until all ingresses answer.
func (o *RulesOptions) begin(ctx context.Context, fl *fleet, doors []*client.Client, list []asked) error {
	for i, door := range doors {
		err := started(ctx, patience, func() error {
			if err := fl.allUp(); err != nil {
				return err
			}
			return door.Ready(ctx)
		})
		if err != nil {
			return fmt.Errorf("ingress %d: %w", i, err)
		}
	}
	for _, r := range list {
		if err := started(ctx, patience, func() error { return o.Store.MakeRule(ctx, r.rule) }); err != nil {
			return fmt.Errorf("make the rule %s: %w", r.rule.Name, err)
		}
	}
	return nil
}

// remove removes the rules, even if the run was interrupted. It does not wait for a store that ended with its process.
func (o *RulesOptions) remove(ctx context.Context, fl *fleet, list []asked) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	for _, r := range list {
		err := started(ctx, patience, func() error {
			err := o.Store.RemoveRule(ctx, r.rule.Name)
			if ended := fl.allUp(); err != nil && ended != nil {
				return ended
			}
			return err
		})
		if err != nil {
			_, _ = fmt.Fprintf(o.Log, "the rule %s could not be removed, remove it by hand: %v\n", r.rule.Name, err)
		}
	}
}
