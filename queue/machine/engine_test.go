package machine_test

import (
	"context"
	"sync"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/machine"
)

// engine is a queue.Engine over a machine: the present commit is kept, and durable, behind each call.
type engine struct {
	mu     sync.Mutex
	m      *machine.Machine
	store  *machine.Memory
	source func() leaky.Instant
	offset leaky.Instant
	last   leaky.Instant
	checks int // how many more commits find out whether what is kept makes the same state again
	closed bool
	wakes  listeners[queue.Wakeup]
	rooms  listeners[string]
}

const keep = queue.KeepChanges

func newEngine(source func() leaky.Instant) *engine {
	return &engine{
		m: machine.New(1), store: machine.NewMemory(), source: source,
		wakes: listeners[queue.Wakeup]{}, rooms: listeners[string]{},
	}
}

func (e *engine) now() leaky.Instant {
	t := e.source() + e.offset
	if t < e.last {
		e.offset += e.last - t
		t = e.last
	}
	e.last = t
	if err := e.m.Tick(t); err != nil {
		panic(err)
	}
	return t
}

// do makes one call of the machine, and then its commit durable.
func (e *engine) do(ctx context.Context, call func(now leaky.Instant) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return queue.ErrClosed
	}
	e.m.RoomHeard, e.m.Bytes = len(e.rooms) > 0, 1<<30
	now := e.now()
	err := call(now)
	e.commit(now)
	wakes, rooms := e.m.Signals()
	e.wakes.tell(wakes)
	e.rooms.tell(rooms)
	return err
}

func (e *engine) commit(now leaky.Instant) {
	c := e.m.Collect(now)
	if c == nil {
		return
	}
	o := machine.WriteOptions{
		KeepChanges: keep, AuditBytes: queue.MaxAuditBytes, Mask: func(_ string, text []byte) []byte { return text },
	}
	if err := e.store.Update(func(tx machine.Transaction) error { return c.Write(tx, o) }); err != nil {
		panic(err)
	}
	e.m.Durable(c.Number, now)
	if t := e.m.Totals(); e.checks > 0 && t.Queues+t.Dead+t.Waiting+t.Scheduled+t.Leased+t.Deferred < 50 {
		e.checks--
		e.read(func(tx machine.Transaction) {
			if err := e.m.CheckKept(tx, now); err != nil {
				panic(err)
			}
		})
	}
}

// read reads what memory does not keep.
func (e *engine) read(do func(tx machine.Transaction)) {
	_ = e.store.View(func(tx machine.Transaction) error { do(tx); return nil })
}

// acting is do for a call that somebody is named for.
func (e *engine) acting(ctx context.Context, call func(now leaky.Instant, by queue.Actor) error) error {
	by, err := queue.ActorOf(ctx)
	if err != nil {
		return err
	}
	return e.do(ctx, func(now leaky.Instant) error { return call(now, by) })
}

func (e *engine) append(ctx context.Context, jobs []queue.Job, offered bool) ([]queue.Appended, error) {
	a := machine.NewAppending(jobs, offered)
	for done := false; !done; {
		err := e.do(ctx, func(now leaky.Instant) error { _, done = e.m.Append(now, a); return nil })
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

func (e *engine) Append(ctx context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	return e.append(ctx, jobs, false)
}

func (e *engine) Offer(ctx context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	return e.append(ctx, jobs, true)
}

func (e *engine) Partitions() int { return 1 }

func (e *engine) Reserve(ctx context.Context, r queue.ReserveRequest) (out queue.Reserved, err error) {
	var g *machine.Granting
	if err := e.do(ctx, func(now leaky.Instant) (err error) { g, err = e.m.Reserve(now, r); return err }); err != nil {
		return out, err
	}
	e.read(g.Read)
	err = e.do(ctx, func(now leaky.Instant) error { e.m.Jobs(now, g); return nil })
	return g.Reserved, err
}

func (e *engine) Settle(ctx context.Context, s []queue.Settlement) (out []queue.Settled, err error) {
	err = e.do(ctx, func(now leaky.Instant) error { out, _ = e.m.Settle(now, s); return nil })
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

func (e *engine) Extend(ctx context.Context, leases []queue.Lease) (left []time.Duration, err error) {
	err = e.do(ctx, func(now leaky.Instant) error { left = e.m.Extend(now, leases); return nil })
	return left, err
}

func (e *engine) Wake(ctx context.Context) <-chan queue.Wakeup { return listen(ctx, e, e.wakes, 16) }

func (e *engine) Room(ctx context.Context) <-chan string { return listen(ctx, e, e.rooms, 1024) }

func (e *engine) Sweep(ctx context.Context, _ int) (more bool, err error) {
	err = e.do(ctx, func(now leaky.Instant) error {
		for e.m.ForgetExpiredTallies(now) {
		}
		e.m.Sweep(now)
		return nil
	})
	if err == nil {
		err = e.do(ctx, func(now leaky.Instant) error { more = e.m.NeedsSweep(now); return nil })
	}
	return more, err
}

func (e *engine) Get(ctx context.Context, name string) (i queue.Info, err error) {
	err = e.do(ctx, func(now leaky.Instant) (err error) { i, err = e.m.Get(now, name); return err })
	return i, err
}

func (e *engine) Lane(ctx context.Context, name, key string) (i queue.Info, l queue.LaneInfo, err error) {
	err = e.do(ctx, func(now leaky.Instant) (err error) { i, l, err = e.m.Lane(now, name, key); return err })
	return i, l, err
}

func (e *engine) List(ctx context.Context, after string, limit int) (list []queue.Info, err error) {
	err = e.do(ctx, func(now leaky.Instant) error { list = e.m.List(now, after, limit); return nil })
	return list, err
}

func (e *engine) Put(ctx context.Context, spec queue.Spec, expect int64) (queue.PutResult, error) {
	return e.put(ctx, spec, expect, false)
}

func (e *engine) put(ctx context.Context, spec queue.Spec, expect int64, again bool) (p queue.PutResult, err error) {
	s, err := machine.NewSpecText(spec)
	if err != nil {
		return p, err
	}
	err = e.acting(ctx, func(now leaky.Instant, by queue.Actor) (err error) {
		p, _, err = e.m.Put(now, by, s, expect, again)
		return err
	})
	return p, err
}

func (e *engine) Delete(ctx context.Context, name string, expect int64, force bool) error {
	return e.acting(ctx, func(now leaky.Instant, by queue.Actor) error {
		_, err := e.m.Delete(now, by, name, expect, force)
		return err
	})
}

func (e *engine) Pause(ctx context.Context, name string, p queue.Pause) error {
	return e.acting(ctx, func(now leaky.Instant, by queue.Actor) error {
		_, err := e.m.Pause(now, by, name, p)
		return err
	})
}

func (e *engine) Resume(ctx context.Context, name string) error {
	return e.acting(ctx, func(now leaky.Instant, by queue.Actor) error {
		_, err := e.m.Resume(now, by, name)
		return err
	})
}

func (e *engine) Readings(ctx context.Context) (all []queue.Reading, err error) {
	for more, after := true, ""; more && err == nil; {
		err = e.do(ctx, func(now leaky.Instant) error {
			var page []queue.Reading
			page, more = e.m.Readings(now, after)
			if all = append(all, page...); len(page) > 0 {
				after = page[len(page)-1].Name
			}
			return nil
		})
	}
	return all, err
}

func (e *engine) GetMany(ctx context.Context, names []string) (some []queue.Info, err error) {
	err = e.do(ctx, func(now leaky.Instant) error { some = e.m.GetMany(now, names); return nil })
	return some, err
}

// listeners are channels, each with what releases its context.
type listeners[T any] map[chan T]func() bool

func listen[T any](ctx context.Context, e *engine, all listeners[T], length int) <-chan T {
	ear := make(chan T, length)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		close(ear)
		return ear
	}
	all[ear] = context.AfterFunc(ctx, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if _, open := all[ear]; open {
			delete(all, ear)
			close(ear)
		}
	})
	return ear
}

func (l listeners[T]) tell(list []T) {
	for ear := range l {
		for _, v := range list {
			select {
			case ear <- v:
			default:
			}
		}
	}
}

func (l listeners[T]) closeAll() {
	for ear, forget := range l {
		forget()
		close(ear)
	}
	clear(l)
}
