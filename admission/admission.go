package admission

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/ruleset"
)

const (
	// DefaultPatience is the default of Options.Patience.
	DefaultPatience = 800 * time.Millisecond
	// attendEvery is how often a process registers itself.
	attendEvery = 5 * time.Second
	// retryAway is when to come back to a closed rule while the store is away.
	retryAway = time.Second
)

// Engine is the part of a queue.Engine that an Admission needs.
type Engine interface {
	queue.SpecReader
	queue.Rules
	queue.Taker
}

// Options configures an Admission. Zero fields mean the defaults named.
type Options struct {
	Observer Observer     // the default does nothing
	Logger   *slog.Logger // the default discards everything
	// Patience is how long the engine may take to decide before the rule's Away does. The default is DefaultPatience.
	Patience time.Duration
}

// Observer observes takes and their answers. Its methods are called concurrently. They must not block or keep their
// arguments.
type Observer interface {
	// Asked reports the duration of one call to the store with takes of a rule, answered or not.
	Asked(rule string, took time.Duration)
	// Failed reports a call about a rule that the store did not answer. The rule may not exist. If this process has
	// seen the rule, its Away decides.
	Failed(rule string, err error)
	// Answered reports the takes of a rule by Take, a Middleware or an Appender, and their answers, possibly by its
	// Away. With err there are no answers. Takes within an engine's Append and Offer are reported in their own answers
	// instead.
	Answered(rule string, takes []rules.Take, taken []rules.Taken, err error)
	// Away reports that the rule's policy (its Away) allowed and refused that many takes because the store was away.
	Away(rule, policy string, allowed, refused int)
	// Missing reports a job refused because its queue names a rule that cannot be asked; see ruleset.Missing.
	Missing(queue, rule string)
}

type noObserver struct{}

func (noObserver) Asked(string, time.Duration)                         {}
func (noObserver) Failed(string, error)                                {}
func (noObserver) Answered(string, []rules.Take, []rules.Taken, error) {}
func (noObserver) Away(string, string, int, int)                       {}
func (noObserver) Missing(string, string)                              {}

// Admission asks rules. It is safe for concurrent use.
type Admission struct {
	engine    Engine
	o         Options
	process   string
	rules     followed[*knownRule]
	queues    followed[ruleNames]
	outages   *outages
	missing   *missingRules
	shares    *shares
	waitlists *waitlists
	processes atomic.Int64 // number of processes that take part; 0 if unknown
	patience  time.Duration
}

// New returns an Admission for an engine. Run must be running; see there.
func New(engine Engine, o Options) *Admission {
	if o.Observer == nil {
		o.Observer = noObserver{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	a := &Admission{
		engine: engine, o: o, process: queue.NewID(), outages: newOutages(o.Logger), missing: newMissingRules(o),
		shares: newShares(), waitlists: newWaitlists(), patience: cmp.Or(o.Patience, DefaultPatience),
	}
	a.rules = follow(a.outages, rules.ErrUnknown, a.patience, a.readRule, o.Observer.Failed)
	a.queues = follow(a.outages, queue.ErrUnknownQueue, a.patience, a.readQueue, nil)
	return a
}

// Run probes stores that are away and registers this process with the store, until ctx ends. It returns nil. Without
// Run, callers wait for the probes themselves. To stop, end the callers first, then Run.
func (a *Admission) Run(ctx context.Context) error {
	var running sync.WaitGroup
	running.Go(func() { a.outages.run(ctx, a.patience) })
	running.Go(func() { a.attend(ctx) })
	running.Wait()
	a.rules.Close()
	a.queues.Close()
	return nil
}

// attend registers this process regularly, and drops tallies that are no longer needed.
func (a *Admission) attend(ctx context.Context) {
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		if a.attendOnce(ctx) {
			next.Reset(attendEvery)
		} else { // keep the last known number
			next.Reset(time.Second)
		}
		a.shares.sweep()
	}
}

func (a *Admission) attendOnce(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, a.patience)
	defer cancel()
	n, err := a.engine.Attend(ctx, a.process)
	if err != nil || n < 1 {
		return false
	}
	a.processes.Store(int64(n))
	return true
}

// Take asks a rule, and implements queue.Taker. If the store cannot be reached, or does not answer within
// Options.Patience, the rule's Away decides. Open allows everything. Closed refuses everything, to be retried after a
// second. Share allows this process its share (docs/admission.md). The store does not know of takes allowed this way;
// do not give them back.
//
// Applying the Action of the rule is up to the caller. Errors: those of queue.Taker; queue.ErrUnavailable for a rule
// that this process has never seen while the store is away; ctx's.
func (a *Admission) Take(ctx context.Context, rule string, takes []rules.Take) ([]rules.Taken, error) {
	taken, _, err := a.take(ctx, rule, takes)
	return taken, err
}

// take is Take, and also reports whether the engine answered.
func (a *Admission) take(
	ctx context.Context, rule string, takes []rules.Take,
) (taken []rules.Taken, asked bool, err error) {
	if refusals := a.waitlists.behind(rule, takes); refusals != nil {
		taken, asked, err = a.decideRest(ctx, rule, takes, refusals)
	} else {
		taken, asked, err = a.decide(ctx, rule, takes)
	}
	a.o.Observer.Answered(rule, takes, taken, err)
	for _, t := range takes {
		if t.Op >= rules.TakeBack {
			a.waitlists.wake(rule, t.Key)
		}
	}
	return taken, asked, err
}

// decideRest decides the takes that have no refusal yet. refusals has the refusals of takes that would overtake waiting
// callers, and nil for the others.
func (a *Admission) decideRest(
	ctx context.Context, rule string, takes []rules.Take, refusals []*rules.Taken,
) (taken []rules.Taken, asked bool, err error) {
	var rest []rules.Take
	for i, t := range takes {
		if refusals[i] == nil {
			rest = append(rest, t)
		}
	}
	var answers []rules.Taken
	if len(rest) > 0 {
		if answers, asked, err = a.decide(ctx, rule, rest); err != nil || len(answers) != len(rest) {
			return answers, asked, err
		}
	}
	taken = make([]rules.Taken, len(takes))
	for i, refused := range refusals {
		if refused != nil {
			taken[i] = *refused
			continue
		}
		taken[i], answers = answers[0], answers[1:]
	}
	return taken, asked, nil
}

func (a *Admission) decide(
	ctx context.Context, rule string, takes []rules.Take,
) (taken []rules.Taken, asked bool, err error) {
	r, err := a.rules.get(ctx, rule)
	if err != nil {
		return nil, false, err
	}
	if len(takes) > rules.MaxTakes || a.outages.askStore(rule) {
		taken, err = a.ask(ctx, rule, takes)
		if err == nil {
			a.outages.end(rule)
		}
		if err == nil || queue.GaveUp(ctx) || !isAway(err) {
			if err != nil && queue.GaveUp(ctx) {
				a.rules.Refresh(rule, probeEvery) // the caller left too early to learn whether the store is away
			}
			return taken, true, err
		}
		a.outages.begin(rule, err, func(ctx context.Context) error {
			_, err := a.engine.Take(ctx, rule, []rules.Take{{Op: rules.TakePeek, Key: "-"}})
			return err
		})
	}
	return a.decideAway(r, takes), false, nil
}

// knownRule is a rule at a revision.
type knownRule struct {
	ruleset.ParsedRule
	revision int64
}

// Rule returns a rule as Take would apply it now, and its revision. Errors: as Take.
func (a *Admission) Rule(ctx context.Context, name string) (rule rules.Rule, revision int64, err error) {
	r, err := a.rules.get(ctx, name)
	if err != nil {
		return rules.Rule{}, 0, err
	}
	return r.Rule, r.revision, nil
}

func (a *Admission) ask(ctx context.Context, rule string, takes []rules.Take) ([]rules.Taken, error) {
	short, cancel := context.WithTimeout(ctx, a.patience)
	defer cancel()
	start := time.Now()
	taken, err := a.engine.Take(short, rule, takes)
	if err == nil || isAway(err) {
		a.o.Observer.Asked(rule, time.Since(start))
	}
	if err != nil && isAway(err) && !queue.GaveUp(ctx) {
		a.o.Observer.Failed(rule, err)
	}
	return taken, err
}

func (a *Admission) readRule(ctx context.Context, name string) (*knownRule, error) {
	info, err := a.engine.Rule(ctx, name)
	if err != nil {
		return nil, err
	}
	template, err := rules.ParseTemplate(info.Key)
	return &knownRule{ruleset.ParsedRule{Rule: info.Rule, Template: template}, info.Revision}, err
}
