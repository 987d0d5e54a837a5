package machine

import (
	"context"
	"errors"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// bench is an engine and a caller.
type bench struct {
	*Engine
	*enginetest.Caller
}

// Options are the settings of a test's engine.
type Options struct {
	fault  func(*Commit) error
	behind bool   // takes are kept only by other commits
	synced func() // called when a commit is durable
}

func start(t testing.TB, o Options) *bench {
	b := &bench{Caller: enginetest.New(t)}
	b.Engine = newEngine(b.Now)
	b.Callee = b.Engine
	b.behind = o.behind
	b.synced, b.fault = o.synced, o.fault
	return b
}

// reopen closes the engine in an orderly way and opens another.
func (e *Engine) reopen() {
	c := e.CollectLast(e.now())
	if err := e.store.Update(func(tx Transaction) error { return c.Write(tx, writeOptions) }); err != nil {
		panic(err)
	}
	e.crash()
}

// crash kills the process and starts another one.
func (e *Engine) crash() {
	e.clock = Clock{}
	e.read(func(tx Transaction) { e.clock, _ = ClockOf(tx) })
	next := New(e.epoch + 1)
	now := e.now()
	next.Ahead = e.clock.Ahead
	e.load(next, now)
	e.Machine = next
	for more := true; more; {
		_, more = next.TakeBackPersisted(e.now())
		if err := e.commit(e.now()); err != nil {
			panic(err)
		}
	}
}

// meddle changes the stored tables.
func (b *bench) meddle(do func(tx Transaction) error) {
	b.Helper()
	if err := b.store.Update(do); err != nil {
		b.Fatal(err)
	}
}

// records returns the number of records in a table.
func (b *bench) records(table []byte) (n int) {
	b.read(func(tx Transaction) {
		_ = forEach(tx.Table(table), func(_, _ []byte) error { n++; return nil })
	})
	return n
}

// noSpace fails commits for lack of room.
type noSpace struct{ all atomic.Bool }

func (n *noSpace) fault(*Commit) error {
	if n.all.Load() {
		return syscall.ENOSPC
	}
	return nil
}

// refuse makes a call fail for lack of room, and checks that it changed nothing.
func (n *noSpace) refuse(b *bench, what string, f func() error) {
	b.Helper()
	before := b.standing("q")
	n.all.Store(true)
	if err := f(); !errors.Is(err, queue.ErrStoreFull) {
		b.Errorf("%s: %v", what, err)
	}
	n.all.Store(false)
	b.forgive()
	if after := b.standing("q"); before != after {
		b.Errorf("%s changed\n%s\ninto\n%s", what, before, after)
	}
	b.checkKept(what)
}

// checkKept checks that memory equals what is stored.
func (b *bench) checkKept(what string) {
	b.Helper()
	b.read(func(tx Transaction) {
		if err := b.CheckKept(tx, b.now()); err != nil {
			b.Errorf("%s: %v", what, err)
		}
	})
}

// keep makes a collected commit durable.
func (b *bench) keep(c *Commit) {
	b.Helper()
	if err := b.write(c); err != nil {
		b.Fatal(err)
	}
	b.Durable(c.Number, b.now())
}

// forgive ends the pause after a commit that found no room.
func (b *bench) forgive() { b.fullUntil = 0 }

func first[T any](v T, _ error) T { return v }

func second[T any](_ T, err error) error { return err }

// save saves all takes.
func (b *bench) save() {
	for more := true; more; {
		_ = b.do(context.Background(), func(leaky.Instant) error { _, more = b.SaveTallies(); return nil })
	}
}
