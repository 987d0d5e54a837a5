package machine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/penstock/penstock/internal/move"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
)

// Engine is a queue.Engine over a machine. The current commit is stored and durable after each call.
type Engine struct {
	*Machine
	mu    sync.Mutex
	store *Memory
	faults
	broken error // why nothing can be decided any more
	source func() leaky.Instant
	clock  Clock
	latest leaky.Instant // the last instant that the clock can show, as the current caller knows it; else 0
	behind bool          // takes are kept only by other commits
	checks int           // how many more commits compare the stored state with memory
	closed bool
	wakes  listeners[queue.Wakeup]
	rooms  listeners[string]
}

// faults are what can happen to commits.
type faults struct {
	fault     func(*Commit) error // its error fails a commit: syscall.ENOSPC for lack of room, other errors for good
	lost      func() error        // its error fails a commit that is stored all the same
	synced    func()              // called when a commit is durable
	fullUntil leaky.Instant       // a commit found no room
}

var writeOptions = WriteOptions{
	KeepChanges: queue.KeepChanges,
	Mask:        func(_ string, text []byte) []byte { return text },
}

func newEngine(source func() leaky.Instant) *Engine {
	return &Engine{
		Machine: New(1), store: NewMemory(), source: source,
		wakes: listeners[queue.Wakeup]{}, rooms: listeners[string]{},
	}
}

func (e *Engine) now() leaky.Instant {
	t := e.clock.Look(e.source(), e.latest)
	e.latest, e.Ahead = 0, e.clock.Ahead
	if err := e.Machine.Tick(t); err != nil {
		panic(err)
	}
	return t
}

// do makes one call of the machine and then makes its commit durable. It repeats the call if there is no room, as boltq
// does.
func (e *Engine) do(ctx context.Context, call func(now leaky.Instant) error) error {
	return e.doKnowing(ctx, 0, call)
}

// doKnowing is do for a caller that knows the last instant that the clock can show.
func (e *Engine) doKnowing(ctx context.Context, latest leaky.Instant, call func(now leaky.Instant) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for again := false; ; again = true {
		switch {
		case e.closed:
			return queue.ErrClosed
		case e.broken != nil:
			return fmt.Errorf("%w: %w", queue.ErrUnavailable, e.broken)
		}
		e.latest = latest
		now := e.now()
		e.Environment = Environment{RoomHeard: len(e.rooms) > 0, Bytes: 1 << 30, Ahead: e.clock.Ahead}
		if now < e.fullUntil {
			e.Full = queue.ErrStoreFull
		}
		err := call(now)
		failed := e.commit(now)
		wakes, rooms := e.Machine.Signals()
		e.wakes.tell(wakes)
		e.rooms.tell(rooms)
		switch {
		case failed == nil:
			return err
		case again || !errors.Is(failed, queue.ErrStoreFull):
			return failed
		}
	}
}

// commit makes the current commit durable, or continues with the stored state without it.
func (e *Engine) commit(now leaky.Instant) error {
	c := e.Machine.Collect(now)
	if c == nil {
		return nil
	}
	err := e.write(c)
	switch {
	case err == nil:
	case errors.Is(err, syscall.ENOSPC):
		e.undo(now)
		e.fullUntil = now.Add(250 * time.Millisecond)
		return queue.ErrStoreFull
	default:
		e.undo(now)
		e.broken = err
		return fmt.Errorf("%w: %w", queue.ErrOutcomeUnknown, err)
	}
	e.Machine.Durable(c.Number, now)
	if e.synced != nil {
		e.synced()
	}
	if t := e.Machine.Totals(); e.checks > 0 && t.Queues+t.Dead+t.Waiting+t.Scheduled+t.Leased+t.Deferred < 50 {
		e.checks--
		e.read(func(tx Transaction) {
			if err := e.Machine.CheckKept(tx, now); err != nil {
				panic(err)
			}
		})
	}
	return nil
}

func (e *Engine) write(c *Commit) error {
	err := e.store.Update(func(tx Transaction) error {
		if err := c.Write(tx, writeOptions); err != nil {
			panic(err)
		}
		if e.fault != nil {
			return e.fault(c)
		}
		return nil
	})
	if err == nil && e.lost != nil {
		return e.lost()
	}
	return err
}

// undo continues without the commits that are not durable.
func (e *Engine) undo(now leaky.Instant) {
	next := e.Machine.Successor()
	e.load(next, now)
	next.CarryOver(e.Machine, now)
	e.Machine = next
}

func (e *Engine) load(m *Machine, now leaky.Instant) {
	e.read(func(tx Transaction) {
		if err := m.Load(context.Background(), tx, now); err != nil {
			panic(err)
		}
	})
}

// read reads what memory does not keep.
func (e *Engine) read(do func(tx Transaction)) {
	_ = e.store.View(func(tx Transaction) error { do(tx); return nil })
}

// acting is do for a call with an actor.
func (e *Engine) acting(ctx context.Context, call func(now leaky.Instant, by audit.Actor) error) error {
	by, err := audit.ActorOf(ctx)
	if err != nil {
		return err
	}
	return e.do(ctx, func(now leaky.Instant) error { return call(now, by) })
}

func (e *Engine) append(ctx context.Context, jobs []queue.Job, offered bool) ([]queue.Appended, error) {
	a := NewAppending(jobs, offered)
	for done := false; !done; {
		tries := 0
		err := e.do(ctx, func(now leaky.Instant) error {
			if tries++; tries > 1 {
				a.Again()
			}
			_, done = e.Machine.Append(now, a)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for i := range a.Answers {
		if a.Answers[i].Outcome != queue.Failed {
			return a.Answers, nil
		}
	}
	if len(jobs) == 0 {
		return nil, nil
	}
	return a.Answers, a.Answers[0].Err
}

func (e *Engine) Append(ctx context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	return e.append(ctx, jobs, false)
}

func (e *Engine) Offer(ctx context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	return e.append(ctx, jobs, true)
}

func (e *Engine) Partitions() int { return 1 }

func (e *Engine) Reserve(ctx context.Context, r queue.ReserveRequest) (out queue.Reserved, err error) {
	var g *Granting
	err = e.doKnowing(ctx, instantOf(r.Latest), func(now leaky.Instant) (err error) {
		g, err = e.Machine.Reserve(now, r)
		return err
	})
	if err != nil {
		return out, err
	}
	e.read(g.Read)
	err = e.do(ctx, func(now leaky.Instant) error { e.Machine.Jobs(now, g); return nil })
	return g.Reserved, err
}

func (e *Engine) Settle(ctx context.Context, s []queue.Settlement) (out []queue.Settled, err error) {
	err = e.do(ctx, func(now leaky.Instant) error { out, _ = e.Machine.Settle(now, s); return nil })
	for i := range out {
		if out[i].Err == nil {
			return out, err
		}
	}
	if len(out) > 0 {
		return out, out[0].Err
	}
	return nil, err
}

func (e *Engine) Extend(ctx context.Context, leases []queue.Lease) (answers []queue.Extended, err error) {
	err = e.do(ctx, func(now leaky.Instant) error { answers, _ = e.Machine.Extend(now, leases); return nil })
	return answers, err
}

func (e *Engine) Throttle(
	ctx context.Context, name string, after time.Duration, reason string,
) (until time.Time, err error) {
	err = e.do(ctx, func(now leaky.Instant) error {
		at, _, err := e.Machine.Throttle(now, name, after, reason)
		until = at.Time()
		return err
	})
	return until, err
}

func (e *Engine) Wake(ctx context.Context) <-chan queue.Wakeup { return listen(ctx, e, e.wakes, 16) }

func (e *Engine) Room(ctx context.Context) <-chan string { return listen(ctx, e, e.rooms, 1024) }

func (e *Engine) Sweep(ctx context.Context, _ int) (more bool, err error) {
	err = e.do(ctx, func(now leaky.Instant) error {
		for e.Machine.ForgetExpiredTallies(now) {
		}
		e.Machine.Sweep(now)
		return nil
	})
	if err == nil {
		err = e.do(ctx, func(now leaky.Instant) error { more = e.Machine.NeedsSweep(now); return nil })
	}
	return more, err
}

func (e *Engine) Get(ctx context.Context, name string) (i queue.Info, err error) {
	err = e.do(ctx, func(now leaky.Instant) (err error) { i, err = e.Machine.Get(now, name); return err })
	return i, err
}

func (e *Engine) Lane(ctx context.Context, name, key string) (i queue.Info, l queue.LaneInfo, err error) {
	err = e.do(ctx, func(now leaky.Instant) (err error) { i, l, err = e.Machine.Lane(now, name, key); return err })
	return i, l, err
}

func (e *Engine) Lineup(ctx context.Context, name string) (l queue.Lineup, err error) {
	err = e.do(ctx, func(now leaky.Instant) (err error) { l, err = e.Machine.Lineup(now, name); return err })
	return l, err
}

func (e *Engine) Lanes(ctx context.Context, r queue.LanesRequest) (p queue.LanesPage, err error) {
	err = e.do(ctx, func(now leaky.Instant) (err error) { p, err = e.Machine.Lanes(now, r); return err })
	return p, err
}

func (e *Engine) List(ctx context.Context, after string, limit int) (list []queue.Info, err error) {
	err = e.do(ctx, func(now leaky.Instant) error { list = e.Machine.List(now, after, limit); return nil })
	return list, err
}

func (e *Engine) Put(ctx context.Context, spec queue.Spec, expect int64) (p queue.PutResult, err error) {
	s, err := NewSpecText(spec)
	if err != nil {
		return p, err
	}
	err = e.acting(ctx, func(now leaky.Instant, by audit.Actor) (err error) {
		p, _, err = e.Machine.Put(now, by, s, expect)
		return err
	})
	return p, err
}

func (e *Engine) Delete(ctx context.Context, name string, expect int64, force bool) error {
	return e.acting(ctx, func(now leaky.Instant, by audit.Actor) error {
		_, err := e.Machine.Delete(now, by, name, expect, force)
		return err
	})
}

func (e *Engine) Pause(ctx context.Context, name string, p queue.Pause) error {
	return e.acting(ctx, func(now leaky.Instant, by audit.Actor) error {
		_, err := e.Machine.Pause(now, by, name, p)
		return err
	})
}

func (e *Engine) Resume(ctx context.Context, name string) error {
	return e.acting(ctx, func(now leaky.Instant, by audit.Actor) error {
		_, err := e.Machine.Resume(now, by, name)
		return err
	})
}

func (e *Engine) Readings(ctx context.Context) (all []queue.Reading, err error) {
	for more, after := true, ""; more && err == nil; {
		err = e.do(ctx, func(now leaky.Instant) error {
			var page []queue.Reading
			page, more = e.Machine.Readings(now, after)
			if all = append(all, page...); len(page) > 0 {
				after = page[len(page)-1].Name
			}
			return nil
		})
	}
	return all, err
}

func (e *Engine) ReadSpecs(ctx context.Context, names []string) (some []queue.KeptSpec, err error) {
	err = e.do(ctx, func(leaky.Instant) error { some = e.Machine.ReadSpecs(names); return nil })
	return some, err
}

func (e *Engine) GetMany(ctx context.Context, names []string) (some []queue.Info, err error) {
	err = e.do(ctx, func(now leaky.Instant) error { some = e.Machine.GetMany(now, names); return nil })
	return some, err
}

var (
	_ queue.Engine = (*Engine)(nil)
	_ move.Mover   = (*Engine)(nil)
)

// NewCheckedEngine returns an engine that loads another machine after each of its first commits and compares the two.
func NewCheckedEngine(now func() leaky.Instant) *Engine {
	e := newEngine(now)
	e.checks = 200
	return e
}
