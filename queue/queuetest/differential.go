package queuetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// Differential runs the same random operations at the same instants on two engines and compares every answer. All
// queues are of one group, and so on one partition. Fences and revisions are compared by position, since each engine
// makes its own. rapid shrinks a difference to the fewest operations that show it.
func Differential(t *testing.T, openA, openB Open) {
	var clean scope
	rapid.Check(t, func(rt *rapid.T) {
		// Stores are closed at the end of their run, not of the test.
		clean = scope{TB: t}
		defer clean.end()
		clock := NewClock()
		p := &pair{
			T: rt, ctx: t.Context(), clock: clock, numbers: map[string]uint64{}, grants: map[string]*request{},
			engines:   [2]queue.Engine{openA(&clean, clock.Now), openB(&clean, clock.Now)},
			overflows: map[string]*pairOverflow{}, counts: map[string]*answerCounts{},
			retention: time.Duration(rapid.IntRange(60, 70).Draw(rt, "retention")) * time.Second,
			lanes:     rapid.IntRange(0, 3).Draw(rt, "lanes") < 3,
			limited:   rapid.IntRange(0, 2).Draw(rt, "limited") < 2, metered: rapid.Bool().Draw(rt, "metered"),
			ruled: rapid.Bool().Draw(rt, "ruled"),
		}
		for _, q := range append(pairQueues, "g.keep") {
			p.counts[q] = newAnswerCounts()
		}
		p.clients = pairClients[:rapid.SampledFrom([]int{1, 3}).Draw(rt, "clients")]
		if p.ruled {
			p.makeRules()
		}
		for _, q := range append(
			rapid.SampledFrom([][]string{{"g", "g.a", "g.b"}, {"g.a", "g.b"}, {"g"}}).Draw(rt, "made first"), pairPull,
		) {
			p.made(p.spec(q))
		}
		for range rapid.OneOf(rapid.IntRange(1, 60), rapid.IntRange(40, 100)).Draw(rt, "operations") {
			p.step()
		}
		p.compareAll()
		p.balance()
		p.drainAll()
	})
}

// scope is a testing.TB whose cleanups run at the end of one run of rapid.
type scope struct {
	testing.TB
	cleanups []func()
}

func (s *scope) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

func (s *scope) end() {
	for _, f := range slices.Backward(s.cleanups) {
		f()
	}
}

// leasePair is one lease as both engines granted it.
type leasePair struct{ a, b queue.Reservation }

// request is a request that may be repeated.
type request struct {
	req   queue.ReserveRequest
	twins []leasePair
	at    leaky.Instant // of the engines' clock
}

// pair is two engines that get the same operations.
type pair struct {
	*rapid.T
	ctx     context.Context
	clock   *Clock
	engines [2]queue.Engine
	clients []string
	numbers map[string]uint64
	twins   []leasePair         // every lease ever granted, the latest last
	grants  map[string]*request // each client's last request
	revs    [2][]int64          // the revisions given out
	// documentRevs are the revisions of documents, which may come from another partition.
	documentRevs [2][]int64
	deleted      bool          // a queue was deleted
	refused      bool          // the last request was answered with an error
	ahead        time.Duration // by which the engines' clocks, which never run back, are ahead of the clock
	jumped       bool          // the clock was set
	latest       time.Time     // the engines' time that a client saw last

	retention time.Duration // the same for every queue
	lanes     bool          // whether to use lanes, priorities and schedules
	limited   bool          // whether to use limits
	metered   bool          // whether limits count units
	ruled     bool          // whether to use rules
	keep      bool          // whether g.keep exists
	overflows map[string]*pairOverflow
	tickets   []ticket   // every ticket given out, the latest last
	takes     []pairTake // that can be corrected, the latest last
	counts    map[string]*answerCounts
}

var (
	pairQueues  = []string{"g", "g.a", "g.b", "g.c", pairPull}
	pairBatches = []string{"", "", "", "a", "ä", "b"}
	pairClients = []string{"one", "two", "three"}
)

// both calls f on both engines and compares the texts it returns.
func (p *pair) both(what string, f func(side int, e queue.Engine) string) {
	p.Helper()
	a := f(0, p.engines[0])
	b := f(1, p.engines[1])
	p.Logf("%v %s: %s", p.clock.Now(), what, a)
	if a != b {
		p.Fatalf("%s differs:\n%s\n%s", what, a, b)
	}
}

// kind reduces an error to the kinds that callers distinguish.
func kind(err error) string {
	if err == nil {
		return "ok"
	}
	var fe *invalid.Error
	if errors.As(err, &fe) {
		return "field " + fe.Field
	}
	var unknown *queue.UnknownRevision
	if errors.As(err, &unknown) { // revisions themselves differ
		return fmt.Sprintf("%s: unknown revision, %d are known", unknown.Queue, len(unknown.Known))
	}
	for _, e := range []error{
		queue.ErrUnknownQueue, queue.ErrUnknownJob, queue.ErrRevision, queue.ErrNotEmpty, queue.ErrHasChildren,
		rules.ErrUnknown, rules.ErrInUse, document.ErrUnknown,
	} {
		if errors.Is(err, e) {
			return e.Error()
		}
	}
	return "another error: " + err.Error()
}

func micro(t time.Time) string { return fmt.Sprint(int64(instantOf(t))) }

// estimate is micro for an expected departure. It returns never for instants after the year 2250, which are not
// compared: Lua's numbers are exact up to 2^53 us, in the year 2255.
func estimate(t time.Time) string {
	if t.Year() > 2250 {
		return "never"
	}
	return micro(t)
}

// queueName returns a queue name, mostly of a queue that was made at the start.
func (p *pair) queueName() string {
	return rapid.SampledFrom([]string{
		"g", "g.a", "g", "g.a", "g.b", "g", "g.a", "g.c", pairPull, pairPull,
	}).Draw(p.T, "queue")
}

func (p *pair) spec(name string) queue.Spec {
	draw := func(label string, from ...string) string { return rapid.SampledFrom(from).Draw(p.T, label) }
	number := func(label string, low, high int64) int64 { return rapid.Int64Range(low, high).Draw(p.T, label) }
	return spec(name, draw("rate", "10/s", "unlimited", "3/s", "14/s", "1000/s", "7/m", "1/h"), func(s *queue.Spec) {
		s.Burst = number("burst", 1, 4)
		s.Capacity = number("capacity", 1, 12)
		s.MaxBytes = unit.Bytes(rapid.SampledFrom([]int64{0, 0, 0, 1500, 2300, 4000, 6000}).Draw(p.T, "max bytes"))
		s.Lease = unit.Duration(time.Duration(number("lease", 1, 4)) * time.Second)
		s.Retry.MaxAttempts = int(number("attempts", 1, 4))
		s.Retry.Deadline = unit.Duration(time.Duration(number("deadline", -2, 3)*2) * time.Second)
		s.Retry.Deadline = max(0, s.Retry.Deadline)
		s.OnUnknown = draw("on unknown", "", "", queue.UnknownHold, queue.UnknownDead, queue.UnknownRetry)
		s.Retention.For = unit.Duration(p.retention) // a longer one might make forgotten jobs known again
		s.Overflow = draw("overflow", queue.Defer, queue.Reject)
		s.Deferred.MaxAge = unit.Duration(time.Duration(number("max age", 1, 60)) * time.Second)
		s.Deferred.LowWater = float64(number("low water", 1, 9)) / 10
		s.Deferred.MaxJobs = number("max jobs", 1, 8)
		s.Deferred.MaxBytes = unit.Bytes(rapid.SampledFrom([]int64{0, 0, 1500, 3000}).Draw(p.T, "max deferred bytes"))
		s.Retention.Full = draw("dead jobs leave no room", "", queue.DropDead, queue.Reject)
		s.Retention.Max = 1000 // never reached: the contract leaves open which of several that end at once goes first
		p.adapts(s)
		p.rules(s)
		p.asks(s)
		p.circuit(s)
		s.Pull = p.somePull(name)
		if name != pairPull { // limits are compared on the other queues
			p.limits(s)
			p.units(s)
		}
	})
}

// step draws one operation and runs it on both engines.
func (p *pair) step() {
	weighted := []func(){
		p.append, p.append, p.offer, p.offer, p.offer, p.offer, p.readmit, p.readmit, p.readmit, p.readmit, p.cancel,
		p.withdraw, p.addUnknown, p.announce, p.backlogged,
		p.reserve, p.reserve, p.reserve, p.reserve, p.reserve,
		p.settle, p.settle, p.settle, p.settle, p.advance, p.advance, p.advance, p.advance,
		func() { p.put(p.spec(p.queueName())) }, func() { p.put(p.spec(p.queueName())) }, p.putRules,
		p.pull, p.pull, p.replay, p.extend, p.extend, p.throttle, p.pause, p.pause, p.resume, p.rollback, p.delete,
		p.look, p.look, p.sweep, p.backwards, p.forwards,
		p.list, p.list, p.find, p.find, p.purge, p.revive, p.revive, p.forget, p.decide, p.decide, p.rush, p.rush, p.regroup,
		p.compareDeadQueues, p.export, p.putDocument, p.putDocument, p.putSample, p.record,
		p.tomorrow, p.tomorrow,
	}
	if p.ruled {
		weighted = append(
			weighted, p.take, p.take, p.take, p.take, p.putRule, p.putRule, p.putRule, p.deleteRule, p.resetRule,
			p.allRules, p.attend, p.append, p.append, p.offer, p.offer,
		)
	}
	weighted[rapid.IntRange(0, len(weighted)-1).Draw(p.T, "operation")]()
}

// describe formats a queue. It omits where the queue is filed once the clock was set, since that may be too early.
func (p *pair) describe(i queue.Info) string {
	if p.jumped {
		i.Ready = time.Time{}
	}
	return describe(i)
}

// describe formats an Info without its revision and its measured outflow.
func describe(i queue.Info) string {
	text, err := queue.EncodeSpec(i.Spec)
	slices.SortFunc(i.Errors, func(a, b queue.LastError) int { // errors of one instant have no order, and so no tenth
		return cmp.Or(b.At.Compare(a.At), strings.Compare(a.ID, b.ID))
	})
	if n := len(i.Errors); n == 10 {
		oldest := i.Errors[n-1].At
		i.Errors = slices.DeleteFunc(i.Errors, func(e queue.LastError) bool { return e.At.Equal(oldest) })
	}
	errs := ""
	for _, e := range i.Errors {
		errs += fmt.Sprintf(" %s %s %q", micro(e.At), e.ID, e.Reason)
	}
	return fmt.Sprintf("%s %v paused %q %q %s %s; waiting %d scheduled %d leased %d held %d deferred %d dead %d; "+
		"%+v; lanes %d weigh %d oldest %s next %s now %s ahead %d deferred cost %d back %d bytes %d dead %d deferred %d; "+
		"group %+v of %v; limits %s; learned %q; %s; errors%s", text, err, i.Pause.By+" "+i.Pause.Note, i.Pause.Reason,
		micro(i.Pause.Since), micro(i.Pause.Until),
		i.Waiting, i.Scheduled, i.Leased, i.Held, i.Deferred, i.Dead, i.Counters, i.Lanes, i.LaneWeights,
		micro(i.OldestWaiting), micro(i.Next), micro(i.Now), i.Ahead, i.DeferredCost, i.Back,
		i.Bytes, i.DeadBytes, i.DeferredBytes,
		i.Group, parentOf(i), limitStates(i),
		i.Learned, stopText(i)+"; "+leavesText(i)+"; "+rateChanges(i), errs)
}

// leavesText formats the fields on which only a queue's status depends. The time of the last request is per partition.
func leavesText(i queue.Info) string {
	return fmt.Sprintf("ready %s lanes rest %v next due %s", micro(i.Ready), i.LanesRest, micro(i.NextDue))
}

func parentOf(i queue.Info) string {
	if i.Parent == nil {
		return "none"
	}
	return fmt.Sprintf("%s paused %v %+v", i.Parent.Spec.Name, i.Parent.Pause.On(), i.Parent.Group)
}

// compareAll compares everything that can be read.
func (p *pair) compareAll() {
	p.both("list", func(_ int, e queue.Engine) string {
		list, err := e.List(p.ctx, "", 100)
		text := kind(err)
		for _, i := range list {
			text += "\n  " + p.describe(i)
		}
		return text
	})
	for _, q := range pairQueues {
		p.changes(queue.OfQueue, q)
	}
	for _, rule := range pairRules {
		p.changes(queue.OfRule, rule)
	}
	for _, q := range pairQueues {
		p.compareBatches(q)
	}
	p.backlogged()
	p.compareDeadQueues()
	p.allRules()
	p.documents()
	p.samples()
	p.audit()
	p.both("totals", func(_ int, e queue.Engine) string {
		t, err := e.Totals(p.ctx)
		return fmt.Sprintf("%+v %s", t, kind(err))
	})
	for _, q := range pairQueues {
		for id := range 31 {
			p.jobInfo(q, fmt.Sprint("j", id))
		}
	}
}

// drainAll readmits and delivers what remains, as both engines see it.
func (p *pair) drainAll() {
	for _, q := range pairQueues {
		p.both("resume "+q, func(_ int, e queue.Engine) string { return kind(e.Resume(p.ctx, q)) })
	}
	p.readmitAll()
	p.deliverAll()
	p.giveUpAll()
	p.compareAll()
	p.balance()
	for _, q := range pairQueues {
		p.batchesFinished(q)
		if i, err := p.engines[0].Get(p.ctx, q); err == nil && i.Size()+i.Deferred > 0 {
			p.Fatalf("%s is never empty: %+v", q, i)
		}
	}
}

// deliverAll delivers all jobs in the queues.
func (p *pair) deliverAll() {
	for range 500 {
		if t, err := p.engines[0].Totals(p.ctx); err == nil && t.Waiting+t.Scheduled+t.Leased == 0 {
			if t.Held == 0 {
				break
			}
			p.decideAll()
		}
		n := p.reserveAs(p.clients[0], 100) + p.pullAll()
		var sides [2][]queue.Settlement
		for _, t := range p.twins[len(p.twins)-n:] {
			sides[0] = append(sides[0], settlement(queue.Deliver, t.a))
			sides[1] = append(sides[1], settlement(queue.Deliver, t.b))
		}
		if n > 0 {
			p.settleBoth("all", sides)
		}
		p.clock.Advance(time.Minute)
	}
}

func (p *pair) advance() {
	us := rapid.OneOf(
		rapid.Int64Range(0, 1000),
		rapid.Int64Range(0, 150_000),
		rapid.SampledFrom([]int64{25_000, 50_000, 100_000, 1_000_000, 10_000_000, 30_000_001, 60_000_000}),
		rapid.Int64Range(0, 5_000_000),
	).Draw(p.T, "microseconds")
	p.clock.Advance(min(time.Duration(us)*time.Microsecond, p.patience()))
}

func (p *pair) backwards() {
	p.kept()
	p.info("g.keep")
	back := time.Duration(rapid.Int64Range(0, 3600_000_000).Draw(p.T, "microseconds back")) * time.Microsecond
	p.clock.Advance(-back)
	p.ahead, p.jumped = p.ahead+back, true
	p.info("g.keep")
}

// forwards lets the wall clock jump ahead while a client vouches. Afterwards no client vouches for so long that the
// engines believe the wall clock again.
func (p *pair) forwards() {
	if p.patience() < 7*time.Second {
		return
	}
	p.kept()
	p.info("g.keep")
	p.latest = p.now()
	// An engine reads its clock at other times too, and may take a jump of less than 3 s for time that has passed.
	by := time.Duration(rapid.Int64Range(3_100_000, 7200_000_000).Draw(p.T, "microseconds ahead")) * time.Microsecond
	p.clock.Advance(by)
	p.ahead, p.jumped = p.ahead-by, true
	p.reserve()
	p.latest = time.Time{}
	for range 2 {
		p.clock.Advance(3*time.Second + time.Microsecond)
		p.info("g.keep")
	}
}

// kept ensures that a queue can be read around the moment when the clock is set back, so that both engines notice it
// alike.
func (p *pair) kept() {
	if !p.keep {
		p.keep = true
		p.putBoth(p.spec("g.keep"), queue.AnyRevision)
	}
}
