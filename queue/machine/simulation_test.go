package machine

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/long"
	"github.com/penstock/penstock/leaky"
)

var (
	simSeed  = flag.Uint64("seed", 0, "simulate this seed alone, and print what happens")
	simSeeds = flag.Uint64("seeds", long.Of[uint64](10, 20), "how many seeds to simulate")
	simCalls = flag.Int("calls", 4000, "how many calls each seed makes")
)

// TestSimulation runs producers, drainers, takers, readmitters and an operator on a store in virtual time. Calls are
// decided while a commit is being written, which then is durable or fails at any of its effects. The process is killed,
// replies are lost, clients freeze or die, and the clock jumps. A seed decides all of it, so that a failure can be
// repeated.
//
// simStore is the process that has the store; the disk outlives it. simJob, simQueue, simRule and simOverflow are what
// the world knows independently of the store, and state what must hold. Clients have files of their own.
func TestSimulation(t *testing.T) {
	from, seeds := uint64(1), *simSeeds
	if *simSeed != 0 {
		from, seeds = *simSeed, 1
	}
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // a world is small: it would be collected all the time
	var all simTotals
	began := time.Now()
	for seed := from; seed < from+seeds; seed++ {
		s := newSimulation(seed, *simCalls)
		s.traced = *simSeed != 0
		if err := s.run(); err != nil {
			again := newSimulation(seed, *simCalls)
			again.traced = true
			err := errors.Join(err, again.run()) // the same run, with a log
			lines := 60
			if *simSeed != 0 {
				lines = len(again.trace)
			}
			t.Fatalf("seed %d: %v\n%s\nrun it again: go test -run TestSimulation ./queue/machine -args -seed %d -calls %d",
				seed, err, strings.Join(again.last(lines), "\n"), seed, *simCalls)
		}
		if all.add(s.simTotals); s.traced {
			t.Log("\n" + strings.Join(s.trace, "\n"))
		}
	}
	took := time.Since(began)
	t.Logf("%d seeds in %v: %+v, %.0f operations a second", seeds, took.Round(time.Millisecond), all,
		float64(all.operations)/took.Seconds())
}

// TestSimulationIsRepeated checks that a run depends on its seed only; otherwise it could not be repeated.
func TestSimulationIsRepeated(t *testing.T) {
	first, second := newSimulation(7, 1000), newSimulation(7, 1000)
	first.traced, second.traced = true, true
	if err := errors.Join(first.run(), second.run()); err != nil {
		t.Fatal(err)
	}
	for i := range min(len(first.trace), len(second.trace)) {
		if first.trace[i] != second.trace[i] {
			t.Fatalf("line %d is %q, and again %q", i, first.trace[i], second.trace[i])
		}
	}
	if len(first.trace) != len(second.trace) {
		t.Fatalf("%d lines, and again %d", len(first.trace), len(second.trace))
	}
}

// simTotals are the totals of a simulation.
type simTotals struct {
	operations int // appended, granted, settled, taken and readmitted jobs
	calls      int
	commits    int
	kills      int // of the process that has the store
	undone     int // commits that failed while the process lived on
}

func (t *simTotals) add(o simTotals) {
	t.operations, t.calls, t.commits = t.operations+o.operations, t.calls+o.calls, t.commits+o.commits
	t.kills, t.undone = t.kills+o.kills, t.undone+o.undone
}

// simulation is a world around one store.
type simulation struct {
	*rand.Rand
	at      leaky.Instant // the time that all share
	jumped  leaky.Instant // how far the store's wall clock is ahead of it
	events  heap[event]
	counted uint64        // events
	faults  bool          // faults may happen
	fsync   time.Duration // duration of most commits
	trouble int           // factor for how often commits fail or take long
	ending  bool          // no new work arrives

	disk     *Memory
	store    *simStore
	queues   []*simQueue
	rules    []*simRule
	jobs     []*simJob // all jobs, by number
	open     []*simJob // jobs that are in, and have not ended since they were last looked for
	fences   map[fence]*simJob
	drainers []*simDrainer

	readmitters []*simReadmitter
	// decisions counts decisions that let a job in or out.
	decisions int

	most int // calls
	simTotals
	traced  bool
	trace   []string
	failure error
}

// event is something to do at an instant; events of one instant run in the order of their numbers.
type event struct {
	at     leaky.Instant
	number uint64
	do     func()
}

func newSimulation(seed uint64, most int) *simulation {
	s := &simulation{
		Rand: rand.New(rand.NewPCG(seed, 0)), at: noon, most: most, disk: NewMemory(), trouble: 1,
		fences: map[fence]*simJob{},
		events: heap[event]{
			key: func(v event) heapKey { return heapKey{int64(v.at), v.number} },
		},
	}
	s.fsync = time.Duration([]int{1, 4, 15, 40}[s.IntN(4)]) * time.Millisecond
	if s.IntN(12) == 0 {
		s.trouble = 10
	}
	s.queues, s.rules = newSimQueues(s), newSimRules()
	return s
}

// run continues until the world has made its calls, then drains all queues without faults.
func (s *simulation) run() error {
	s.begin()
	for _, r := range s.rules {
		s.putRule(r, r.base, nil)
	}
	for _, q := range s.queues {
		s.put(q, q.spec, nil)
	}
	s.goOn(func() bool { return s.store.writing != nil || s.store.woken })
	s.faults = true
	for range s.IntN(20) + 1 {
		s.later(s.upTo(time.Second), (&simProducer{simulation: s}).append)
	}
	for i := range s.IntN(60) + 1 {
		d := &simDrainer{simulation: s, name: fmt.Sprint("d", i)}
		s.drainers = append(s.drainers, d)
		s.later(s.upTo(time.Second), d.begin)
	}
	for _, q := range s.queues {
		for i := range 2 {
			if q.overflow != nil {
				s.readmitters = append(s.readmitters, &simReadmitter{simulation: s, of: q.overflow, name: fmt.Sprint("r", i)})
			}
		}
	}
	for range s.IntN(6) {
		s.later(s.upTo(time.Second), (&simTaker{s}).take)
	}
	s.later(s.upTo(time.Second), s.operate)
	s.later(s.upTo(10*time.Second), s.strike)
	s.goOn(func() bool { return s.calls < s.most })
	s.runDry()
	s.goOn(func() bool { return s.store.writing != nil || s.store.woken })
	if s.failure == nil {
		s.judgeStarts()
		s.judgeRules()
		s.checkKept()
	}
	return s.failure
}

func (s *simulation) goOn(more func() bool) {
	for s.failure == nil && s.events.len() > 0 && more() {
		e := s.events.pop()
		s.at = max(s.at, e.at)
		e.do()
	}
}

// runDry ends all faults and new work, and lets drainers deliver what is left.
func (s *simulation) runDry() {
	if s.failure != nil {
		return
	}
	s.faults, s.fsync = false, time.Millisecond
	s.restart()
	for _, q := range s.queues {
		s.resume(q, nil)
	}
	s.ending = true
	for _, r := range s.readmitters {
		r.lookIn(0)
	}
	until := s.at.Add(2 * time.Hour)
	s.goOn(func() bool { return s.at < until && s.unfinished() })
	if s.failure == nil && s.unfinished() {
		s.fail("two hours after the last fault queues are not empty: %s", s.describeQueues())
	}
}

// later does something after a while.
func (s *simulation) later(d time.Duration, do func()) {
	s.counted++
	s.events.push(event{s.at.Add(d), s.counted, do})
}

// upTo returns a random duration below d, in microseconds.
func (s *simulation) upTo(d time.Duration) time.Duration {
	return time.Duration(s.Int64N(d.Microseconds())) * time.Microsecond
}

// chance returns true once in n times, while there are faults.
func (s *simulation) chance(n int) bool { return s.faults && s.IntN(n) == 0 }

// fail ends the run.
func (s *simulation) fail(format string, args ...any) {
	if s.failure == nil {
		s.failure = fmt.Errorf("%v, call %d: %s", s.at.Sub(noon), s.calls, fmt.Sprintf(format, args...))
		if s.traced {
			_, file, line, _ := runtime.Caller(1)
			s.note("%s:%d: %v", file, line, s.failure)
		}
	}
}

func (s *simulation) note(format string, args ...any) {
	if s.traced {
		s.trace = append(s.trace, fmt.Sprintf("%12v  %s", s.at.Sub(noon), fmt.Sprintf(format, args...)))
	}
}

func (s *simulation) last(n int) []string { return s.trace[max(0, len(s.trace)-n):] }
