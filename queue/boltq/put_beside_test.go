package boltq

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// A Put whose caller has gone is answered with nothing, and its commit writes to
// nobody: run with -race.
func TestAPutThatIsGivenUp(t *testing.T) {
	h := holding()
	b := start(t, Options{synced: h.synced})
	b.put("q", "1/s")
	spec := b.info("q").Spec
	spec.Capacity = 7
	h.on.Store(true)
	ctx, cancel := context.WithCancel(context.Background())
	type answer struct {
		res queue.PutResult
		err error
	}
	answered := make(chan answer)
	go func() {
		res, err := b.Put(ctx, spec, queue.AnyRevision)
		answered <- answer{res, err}
	}()
	<-h.arrived
	cancel()
	a := <-answered
	h.on.Store(false)
	h.release <- struct{}{}
	if !errors.Is(a.err, queue.ErrOutcomeUnknown) || a.res != (queue.PutResult{}) {
		t.Errorf("%+v, %v", a.res, a.err)
	}
	await.Until(t, "the change is made", func() bool { return b.info("q").Spec.Capacity == 7 })
}

// granted does the first half of a Reserve: what it was granted, whose ceiling
// is not on disk.
func (b *bench) granted(most int) (*client, *grant) {
	b.Helper()
	b.Engine.mu.Lock()
	defer b.Engine.mu.Unlock()
	b.number++
	c, now := queue.Client{ID: "c"}, b.now()
	cl := b.registerClient(c, now)
	g := &grant{max: most}
	b.grantDue(g, now)
	cl.lastNumber, cl.grant = b.number, g
	if len(g.jobs) != 1 {
		b.Fatalf("granted %d", len(g.jobs))
	}
	return cl, g
}

// A rate that is raised beside a Reserve leaves no far ceiling on disk: a crash
// would stop the queue for what is left of the old interval.
func TestAPutBesideAReserve(t *testing.T) {
	check := func(t *testing.T, b *bench) {
		t.Helper()
		b.Engine.mu.Lock()
		defer b.Engine.mu.Unlock()
		q := b.queues["q"]
		if need := tat(q.bucket); q.ceiling.tat < need || q.ceiling.tat.Sub(need) > ceilingAhead {
			t.Errorf("the ceiling is at %v, the bucket at %v", since(q.ceiling.tat), since(need))
		}
	}
	t.Run("landed before the ceiling is asked for", func(t *testing.T) {
		b := start(t, Options{})
		b.put("q", "1/h")
		b.append("q", 0, 2)
		cl, g := b.granted(9)
		b.put("q", "100/s")
		if err := b.persistCeilings(context.Background(), cl, g); err != nil {
			t.Fatal(err)
		}
		check(t, b)
	})
	t.Run("under way", func(t *testing.T) {
		h := holding()
		b := start(t, Options{synced: h.synced})
		b.put("q", "1/h")
		b.append("q", 0, 2)
		cl, g := b.granted(9)
		h.on.Store(true)
		put, raised := make(chan error), make(chan error)
		spec := b.info("q").Spec
		rate, err := leaky.ParseRate("100/s")
		if err != nil {
			t.Fatal(err)
		}
		spec.Rate = rate
		go func() { put <- second(b.Put(context.Background(), spec, queue.AnyRevision)) }()
		<-h.arrived
		b.Engine.mu.Lock()
		wait, own := b.raiseNeeds(g)
		b.Engine.mu.Unlock()
		if len(wait) != 1 || own != nil {
			t.Errorf("it waits for %d others and has one of its own: %v", len(wait), own != nil)
		}
		go func() { raised <- b.persistCeilings(context.Background(), cl, g) }()
		h.on.Store(false)
		h.release <- struct{}{}
		if err := errors.Join(<-put, <-raised); err != nil {
			t.Fatal(err)
		}
		check(t, b)
	})
}

func TestWhichRequestsAreFresh(t *testing.T) {
	for _, tt := range []struct {
		what   string
		client client
		number uint64
		want   bool
	}{
		{"the first", client{}, 1, true},
		{"a later one", client{lastNumber: 6, grant: &grant{}}, 7, true},
		{"the last one again", client{lastNumber: 6, grant: &grant{}}, 6, false},
		{"one that was overtaken", client{lastNumber: 6, grant: &grant{}}, 5, false},
		{"the last one, which failed", client{lastNumber: 6}, 6, true},
		{"one that was overtaken by one that failed", client{lastNumber: 6}, 5, false},
	} {
		if got := tt.client.isNew(tt.number); got != tt.want {
			t.Errorf("%s: %v", tt.what, got)
		}
	}
}

// While nobody watches everybody is woken four times a second, however much
// becomes due.
func TestWakesWhileNobodyWatches(t *testing.T) {
	b := start(t, Options{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ear := b.Wake(ctx)
	for round := range 3 {
		for i := range 10 {
			name := fmt.Sprintf("q%d-%d", round, i)
			b.put(name, "1/s")
			b.append(name, 0, 1)
			b.advance(24 * time.Millisecond)
		}
		if got := len(ear); got != round+1 {
			t.Errorf("%d wake-ups in %d times 250 ms", got, round+1)
		}
		b.advance(10 * time.Millisecond)
	}
	for range len(ear) {
		if w := <-ear; w != (queue.Wakeup{}) {
			t.Errorf("%+v, and nobody watches", w)
		}
	}
}
