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
	// DefaultPatience is how long the engine may take to decide before the rule's policy does, unless Options say else.
	DefaultPatience = 800 * time.Millisecond
	// attendEvery is how often a process says that it takes part.
	attendEvery = 5 * time.Second
	// retryAway is when to come back to what is closed while the store is away.
	retryAway = time.Second
)

// Engine is what an Admission needs of a queue.Engine.
type Engine interface {
	queue.SpecReader
	queue.Rules
	queue.Taker
}

// Options of an Admission. Zero fields mean what is said beside them.
type Options struct {
	Observer Observer     // does nothing
	Logger   *slog.Logger // discards
	// Patience is how long the engine may take to decide before the rule's policy does; 0 is DefaultPatience.
	Patience time.Duration
}

// Observer is told what rules are asked, and what they say. Its methods are called from many goroutines and must not
// block, nor keep what they are given.
type Observer interface {
	// Asked: one call to the store, of one or many questions to a rule, took so long, be it that it was not answered.
	Asked(rule string, took time.Duration)
	// Failed: a call to the store about a rule, which may be none, was not answered, because of err. If the rule was ever
	// seen its Away decides.
	Failed(rule string, err error)
	// Answered: what was asked of a rule by Take, a Middleware or an Appender, and what they were answered, be it by its
	// Away. With err nothing was. (What an engine's Append and Offer ask by themselves they say in their own answers.)
	Answered(rule string, takes []rules.Take, taken []rules.Taken, err error)
	// Away: the store could not be asked, and the rule's policy (its Away) let so many through and refused so many.
	Away(rule, policy string, allowed, refused int)
	// Missing: a job was not taken because of a rule that its queue names and that cannot be asked; see ruleset.Missing.
	Missing(queue, rule string)
}

type noObserver struct{}

func (noObserver) Asked(string, time.Duration)                         {}
func (noObserver) Failed(string, error)                                {}
func (noObserver) Answered(string, []rules.Take, []rules.Taken, error) {}
func (noObserver) Away(string, string, int, int)                       {}
func (noObserver) Missing(string, string)                              {}

// Admission asks rules. It is safe for use by many goroutines.
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
	processes atomic.Int64 // how many processes take part; 0 is not known
	patience  time.Duration
}

// New returns an Admission over an engine. Run it: see Run.
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

// Run finds out whether a store that was away is back, and tells the store that this process takes part, until ctx
// ends. It returns nil. Without Run, those who ask wait for all of that. End what asks first, then Run.
func (a *Admission) Run(ctx context.Context) error {
	var running sync.WaitGroup
	running.Go(func() { a.outages.run(ctx, a.patience) })
	running.Go(func() { a.attend(ctx) })
	running.Wait()
	a.rules.Close()
	a.queues.Close()
	return nil
}

// attend says that this process takes part, and forgets what shares need no more.
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
		} else { // what was known last holds
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

// Take asks a rule, as queue.Taker does, and is one. While the store cannot be asked, or does not answer within 800 ms,
// the rule's Away decides: open lets everything through; closed refuses everything, and says to come back in a second;
// share lets through as long as this process keeps to its share (docs/admission.md). The store does not know what was
// let through in this way; do not give it back.
//
// What the Action of the rule means is for the caller to apply. Errors: those of queue.Taker; queue.ErrUnavailable for
// a rule that this process has never seen while the store is away; ctx's.
func (a *Admission) Take(ctx context.Context, rule string, takes []rules.Take) ([]rules.Taken, error) {
	taken, _, err := a.take(ctx, rule, takes)
	return taken, err
}

// take also tells whether the answer is the engine's.
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

// decideRest asks what is not refused because others wait.
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
				a.rules.Refresh(rule, probeEvery) // nobody waited long enough to learn whether the store is away
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

// Rule returns a rule as Take would apply it now, and its revision. Errors: those of Take.
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
