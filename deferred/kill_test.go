package deferred

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/app/natsserver"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/queue"
)

// mortal is an engine as a process sees it that is killed, or stopped for a while, at one
// of its calls.
type mortal struct {
	Engine
	at    int  // the call, from 0
	after bool // when it is done, but has not answered
	do    func()

	mu    sync.Mutex
	calls int
	dead  bool
}

var errKilled = errors.New("killed")

func (m *mortal) Readmit(ctx context.Context, r queue.ReadmitRequest) (queue.Readmitted, error) {
	m.mu.Lock()
	n := m.calls
	m.calls++
	dead := m.dead
	m.mu.Unlock()
	if dead {
		return queue.Readmitted{}, errKilled
	}
	if n == m.at && !m.after {
		m.do()
	}
	a, err := queue.Readmitted{}, errKilled
	if m.alive() {
		a, err = m.Engine.Readmit(ctx, r)
	}
	if n == m.at && m.after {
		m.do()
	}
	if !m.alive() {
		return queue.Readmitted{}, errKilled
	}
	return a, err
}

func (m *mortal) alive() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.dead
}

func (m *mortal) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = true
}

// drainAll takes jobs out until n have left, and reports any that leaves twice.
func drainAll(t *testing.T, r *rig, seen map[string]bool, n int, nudge func()) {
	t.Helper()
	await.Until(t, fmt.Sprintf("%d jobs have left", n), func() bool {
		nudge()
		if waiting := r.info(t, "a").Waiting; waiting > 0 {
			for _, id := range leave(t, r, int(waiting)) {
				if seen[id] {
					t.Fatalf("%s left twice", id)
				}
				seen[id] = true
			}
		}
		return len(seen) >= n
	})
}

// A readmitter is killed at each of its calls, before the engine received it or before the answer came, with another
// one waiting: nothing is lost and nothing is in the queue twice.
func TestKilled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	putSpec(t, r, specFor("a", 40))
	a := newAppender(t, r, r.stream)
	seen, total, deaths := map[string]bool{}, 0, 0
	for round := range 50 {
		for chunk := range slices.Chunk(numbered(120), 10) { // a message each
			for i := range chunk {
				chunk[i] = fmt.Sprintf("%d-%s", round, chunk[i])
			}
			defers(t, a, "a", chunk)
			total += len(chunk)
		}
		ctx, cancel := context.WithCancel(t.Context())
		victim := &mortal{Engine: r, at: round / 2, after: round%2 == 1}
		victim.do = func() { victim.kill(); cancel() }
		first := NewReadmitter(victim, r.stream)
		done := make(chan error, 1)
		go func() { done <- first.Run(ctx) }()
		second := r.readmitter()
		stop := runReadmitter(t, second)
		drainAll(t, r, seen, total, func() {
			first.ring("a")
			second.ring("a")
			if !victim.alive() { // its hold runs out by the engine's clock
				r.clock.jump(100 * time.Millisecond)
			}
		})
		if !victim.alive() {
			deaths++
		}
		r.idle(t, "a")
		stop()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	info := r.info(t, "a")
	if len(seen) != total || info.Delivered != int64(total) || info.Missing != 0 || info.Dead != 0 {
		t.Errorf("%d of %d left, %+v", len(seen), total, info)
	}
	if n := len(deadLetters(t, r.stream)); n != 0 {
		t.Errorf("%d dead letters", n)
	}
	if deaths < 20 {
		t.Errorf("only %d were killed", deaths)
	}
	t.Logf("%d were killed", deaths)
}

// A readmitter stops at each of its calls for longer than its hold lasts. Meanwhile another one takes over and
// everything leaves; then the first continues.
func TestPaused(t *testing.T) {
	for call := range 8 {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprint(call, after), func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				putSpec(t, r, specFor("a", 40))
				a := newAppender(t, r, r.stream)
				for chunk := range slices.Chunk(numbered(120), 10) {
					defers(t, a, "a", chunk)
				}
				stopped, goOn := make(chan struct{}), make(chan struct{})
				sleeper := &mortal{Engine: r, at: call, after: after, do: func() { close(stopped); <-goOn }}
				first := NewReadmitter(sleeper, r.stream)
				runReadmitter(t, first)
				seen := map[string]bool{}
				drainAll(t, r, seen, 40, func() {}) // what had found room
				await.Until(t, "it has stopped", func() bool {
					first.ring("a")
					drainAll(t, r, seen, len(seen), func() {})
					select {
					case <-stopped:
						return true
					default:
						return len(seen) == 120 // it made fewer calls
					}
				})
				second := r.readmitter()
				stop := runReadmitter(t, second)
				drainAll(t, r, seen, 120, func() { r.clock.jump(100 * time.Millisecond); second.ring("a") })
				more := numbered(130)[120:]
				defers(t, a, "a", more)
				drainAll(t, r, seen, 125, func() { second.ring("a") })
				close(goOn)
				defers(t, a, "a", []string{"x", "y", "z"})
				drainAll(t, r, seen, 133, func() { r.clock.jump(100 * time.Millisecond); first.ring("a") })
				stop()
				r.idle(t, "a")
				if info := r.info(t, "a"); len(seen) != 133 || info.Delivered != 133 || info.Missing != 0 ||
					len(deadLetters(t, r.stream)) != 0 {
					t.Errorf("%d left, %+v", len(seen), info)
				}
			})
		}
	}
}

// Two or more readmitters share the work, in any order, and one that stops leaves it to the others at once.
func TestMany(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"a", "b", "c"} {
		putSpec(t, r, specFor(name, 10))
	}
	a := newAppender(t, r, r.stream)
	for _, name := range []string{"a", "b", "c"} {
		defers(t, a, name, numbered(200))
	}
	var stops []func()
	for range 4 {
		other := openStream(t, connect(t, r.stream.nc.ConnectedUrl()), Options{})
		stops = append(stops, runReadmitter(t, NewReadmitter(r, other)))
	}
	leave(t, r, 300)
	for _, stop := range stops[1:] {
		stop()
	}
	leave(t, r, 300)
	for _, name := range []string{"a", "b", "c"} {
		r.idle(t, name)
		if info := r.info(t, name); info.Delivered != 200 || info.Returned != 190 {
			t.Errorf("%+v", info)
		}
	}
}

// NATS loses its last writes in a power failure and reuses their sequences. Jobs put afterwards come back, although
// the engine's order is already beyond them.
func TestSequenceRunsBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server, err := natsserver.Start(t.Context(), natsserver.Options{
		Dir: filepath.Join(dir, "nats"), Listen: "127.0.0.1:0", MaxStore: 20 << 30,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	r := &rig{seen: newSeen()}
	r.Engine, r.clock = newBolt(t)
	r.stream = openStream(t, connect(t, server.URL()), Options{Observer: r.seen})
	putSpec(t, r, specFor("a", 100))
	save := filepath.Join(dir, "before")
	server.Stop()
	if err := os.CopyFS(save, os.DirFS(filepath.Join(dir, "nats"))); err != nil {
		t.Fatal(err)
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop := runReadmitter(t, r.readmitter())
	put := func(id string) {
		t.Helper()
		await.Until(t, "stored", func() bool { return r.stream.Put(t.Context(), itemsNow("a", []string{id}))[0] == nil })
	}
	for _, id := range numbered(10) {
		put(id)
	}
	leave(t, r, 10)
	r.idle(t, "a")
	for round := range 2 { // with the process that saw it, and with another
		server.Stop()
		if err := errors.Join(
			os.RemoveAll(filepath.Join(dir, "nats")), os.CopyFS(filepath.Join(dir, "nats"), os.DirFS(save)),
		); err != nil {
			t.Fatal(err)
		}
		if err := server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if round == 1 {
			stop()
		}
		for i := range 5 {
			put(fmt.Sprintf("again-%d-%d", round, i))
		}
		if round == 1 {
			stop = runReadmitter(t, r.readmitter())
		}
		leave(t, r, 5)
		await.Until(t, "nothing is left", func() bool { return onStream(t, r.stream, "penstock.deferred.a") == 0 })
	}
	if info := r.info(t, "a"); info.Delivered != 20 {
		t.Errorf("%+v", info)
	}
	stop()
}
