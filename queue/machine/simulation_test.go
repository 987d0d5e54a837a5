package machine

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

var (
	simSeed  = flag.Uint64("seed", 0, "simulate this seed alone, and print what happens")
	simSeeds = flag.Uint64("seeds", 20, "how many seeds to simulate")
	simCalls = flag.Int("calls", 4000, "how many calls each seed makes")
)

// TestSimulation runs producers, drainers and an operator on an engine in virtual time, while commits fail, the
// process is killed, replies are lost, clients freeze or die, and the clock jumps. A seed decides all of it, so that
// what fails can be run again. See checks for what must hold.
func TestSimulation(t *testing.T) {
	from, seeds := uint64(1), *simSeeds
	if *simSeed != 0 {
		from, seeds = *simSeed, 1
	}
	began, calls, operations, kills := time.Now(), 0, 0, 0
	for seed := from; seed < from+seeds; seed++ {
		s := newSimulation(seed, *simCalls)
		s.traced = *simSeed != 0
		if err := s.run(); err != nil {
			again := newSimulation(seed, *simCalls)
			again.traced = true
			err := errors.Join(err, again.run()) // the same, told from the beginning
			t.Fatalf("seed %d: %v\n%s\nrun it again: go test -run TestSimulation ./queue/machine -args -seed %d -calls %d",
				seed, err, strings.Join(again.last(60), "\n"), seed, *simCalls)
		}
		calls, operations, kills = calls+s.calls, operations+s.operations, kills+s.kills
		if s.traced {
			t.Log("\n" + strings.Join(s.trace, "\n"))
		}
	}
	took := time.Since(began)
	t.Logf("%d seeds, %d kills, %d calls with %d appends, grants and settlements in %v: %.0f of those a second", seeds,
		kills, calls, operations, took.Round(time.Millisecond), float64(operations)/took.Seconds())
}

// simulation is a world around one store.
type simulation struct {
	*rand.Rand
	*Engine
	disk    *Memory
	ctx     context.Context
	at      leaky.Instant // the time that all share
	jumped  leaky.Instant // how far the engine's clock is beyond it
	events  heap[event]
	counted uint64 // events
	faults  bool

	calls, most, kills int
	operations         int // of single jobs
	checks
	drainers []*simDrainer
	traced   bool
	trace    []string
	failure  error
}

// event is something to do at an instant; those of one instant are done in the order of their numbers.
type event struct {
	at     leaky.Instant
	number uint64
	do     func()
}

func newSimulation(seed uint64, most int) *simulation {
	s := &simulation{
		Rand: rand.New(rand.NewPCG(seed, 0)), ctx: context.Background(), at: noon, most: most,
		disk: NewMemory(),
		events: heap[event]{
			less: func(a, b event) bool {
				return a.at < b.at || a.at == b.at && a.number < b.number
			},
			moved: func(event, int) {},
		},
	}
	s.checks = newChecks(s)
	return s
}

// run lets the world go on until it has made its calls, then lets all queues run dry without faults.
func (s *simulation) run() error {
	if err := s.open(); err != nil {
		return err
	}
	for i := range simQueues {
		if _, err := s.Put(s.ctx, s.queues[i].spec, queue.AnyRevision); err != nil {
			return err
		}
	}
	s.faults = true
	for range s.IntN(20) + 1 {
		s.later(s.upTo(time.Second), (&simProducer{simulation: s}).append)
	}
	for i := range s.IntN(60) + 1 {
		d := &simDrainer{simulation: s, name: fmt.Sprint("d", i)}
		s.drainers = append(s.drainers, d)
		s.later(s.upTo(time.Second), d.begin)
	}
	s.later(s.upTo(time.Second), s.operate)
	s.later(s.upTo(10*time.Second), s.strike)
	s.goOn(func() bool { return s.calls < s.most })
	s.runDry()
	if s.failure == nil {
		s.judge()
	}
	s.kill()
	return s.failure
}

func (s *simulation) goOn(more func() bool) {
	for s.failure == nil && s.events.len() > 0 && more() {
		e := s.events.pop()
		s.at = max(s.at, e.at)
		e.do()
	}
}

// runDry ends all faults and all new work, and lets drainers deliver what is left.
func (s *simulation) runDry() {
	s.faults = false
	s.restart()
	for i := range s.queues {
		if err := s.Resume(s.ctx, s.queues[i].spec.Name); err != nil && s.failure == nil {
			s.failure = err
		}
	}
	s.ending = true
	until := s.at.Add(2 * time.Hour)
	s.goOn(func() bool { return s.at < until && s.unfinished() })
	if s.failure == nil && s.unfinished() {
		s.fail("two hours after the last fault queues are not empty: %s", s.describeQueues())
	}
}

// open opens the store, as a process does that begins.
func (s *simulation) open() error {
	s.Engine = newEngine(func() leaky.Instant { return s.at + s.jumped })
	s.Engine.store, s.epoch = s.disk, uint64(s.kills) // no two processes have one
	s.crash()
	s.fault, s.lost = func(*Commit) error { return s.failing() }, s.failed
	return nil
}

// failing decides whether a commit fails, and how.
func (s *simulation) failing() error {
	switch {
	case s.chance(1000):
		s.note("the disk is full")
		return syscall.ENOSPC
	case s.chance(2000):
		s.note("a commit fails")
		s.later(s.upTo(time.Second), s.restart)
		return syscall.EIO
	}
	return nil
}

// failed decides whether a commit fails although it is on disk.
func (s *simulation) failed() error {
	if !s.chance(2000) {
		return nil
	}
	s.note("a commit fails, and is on disk")
	s.later(s.upTo(time.Second), s.restart)
	return syscall.EIO
}

// kill ends the process without a last word.
func (s *simulation) kill() { s.broken = errors.New("killed") }

// restart kills the process and begins another.
func (s *simulation) restart() {
	s.kills++
	s.note("kill and restart")
	s.kill()
	if err := s.open(); err != nil {
		s.fail("opening: %v", err)
		return
	}
	s.afterRestart()
}

// strike does something that nobody wants.
func (s *simulation) strike() {
	if s.ending {
		return
	}
	switch s.IntN(4) {
	case 0:
		s.restart()
	case 1:
		if s.IntN(2) == 0 {
			s.jumped -= leaky.Instant(s.upTo(time.Minute).Microseconds())
			s.note("the clock jumps back")
		} else {
			s.jumped += leaky.Instant(s.upTo(time.Second).Microseconds())
			s.note("the clock jumps forward")
		}
		s.newSegments()
	case 2:
		if d := s.drainers[s.IntN(len(s.drainers))]; d.alive {
			d.die()
		}
	case 3:
		d := s.drainers[s.IntN(len(s.drainers))]
		d.frozenUntil = s.at.Add(s.upTo(20 * time.Second))
		s.note("%s freezes until %v", d.name, d.frozenUntil)
	}
	s.later(s.upTo(10*time.Second), s.strike)
}

// later does something after a while.
func (s *simulation) later(d time.Duration, do func()) {
	s.counted++
	s.events.push(event{s.at.Add(d), s.counted, do})
}

// upTo is a random time of less than d, in microseconds.
func (s *simulation) upTo(d time.Duration) time.Duration {
	return time.Duration(s.Int64N(d.Microseconds())) * time.Microsecond
}

// chance is true once in n times, while there are faults.
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
