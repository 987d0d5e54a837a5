package deferred

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/app/natsserver"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/queue"
)

// A missing connection is known at once and for certain; it reconnects by itself.
func TestPutDisconnected(t *testing.T) {
	server := startNATS(t)
	nc := connect(t, server.URL())
	s := openStream(t, nc, Options{})
	server.Stop()
	await.Until(t, "disconnected", func() bool { return !nc.IsConnected() })
	if err := s.Put(t.Context(), itemsFor("a", []string{"1"}))[0]; !errors.Is(err, ErrUnavailable) ||
		errors.Is(err, queue.ErrOutcomeUnknown) {
		t.Error(err)
	}
	if s.Connected() == nil || s.Status().Connected {
		t.Error("connected, it says")
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "stored", func() bool { return s.Put(t.Context(), itemsFor("a", []string{"2"}))[0] == nil })
	if st := s.Status(); !st.Connected || st.Err != nil || s.Connected() != nil {
		t.Errorf("%+v", st)
	}
	if ids, _ := storedJobs(t, s, "a"); fmt.Sprint(ids) != "[2]" {
		t.Error(ids)
	}
}

// NATS is stopped and started under load: every acknowledged job is stored, and none that was definitely refused.
func TestPutThroughRestarts(t *testing.T) {
	server := startNATS(t)
	s := openStream(t, connect(t, server.URL()), Options{})
	acked, refused := loadUntil(t, s, func() {
		for range 4 {
			time.Sleep(100 * time.Millisecond) // under load
			if err := server.Restart(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	checkStored(t, s, acked, refused)
}

// The same with a cluster that loses its leader, again and again.
func TestPutThroughLeaders(t *testing.T) {
	t.Parallel()
	c, err := natsserver.StartCluster(t.Context(), 3, natsserver.Options{
		Dir: t.TempDir(), LazySync: true, MaxStore: 20 << 30,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	s := openStream(t, connect(t, c.URL()), Options{Replicas: 3})
	acked, refused := loadUntil(t, s, func() {
		for range 2 {
			var leader *natsserver.Server
			await.Until(t, "a leader", func() bool { leader = c.Leader(s.name); return leader != nil })
			time.Sleep(100 * time.Millisecond) // under load
			leader.Stop()
			await.Until(t, "stored without it", func() bool {
				return s.Put(t.Context(), itemsFor("other", []string{"x"}))[0] == nil
			})
			if err := leader.Restart(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	checkStored(t, s, acked, refused)
}

// loadUntil puts jobs from several goroutines while trouble lasts, and a little longer.
func loadUntil(t *testing.T, s *Stream, trouble func()) (acked, refused map[string]bool) {
	t.Helper()
	acked, refused = map[string]bool{}, map[string]bool{}
	var mu sync.Mutex
	stop := make(chan struct{})
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for k := 0; ; k++ {
				select {
				case <-stop:
					return
				default:
				}
				id := fmt.Sprintf("%d-%d", i, k)
				err := s.Put(context.Background(), itemsFor("a", []string{id}))[0]
				mu.Lock()
				switch {
				case err == nil:
					acked[id] = true
				case !errors.Is(err, queue.ErrOutcomeUnknown):
					refused[id] = true
				}
				mu.Unlock()
				if err != nil { // all 16 would keep the processor from the leaders otherwise
					time.Sleep(5 * time.Millisecond)
				}
			}
		})
	}
	trouble()
	mu.Lock()
	before := len(acked)
	mu.Unlock()
	await.Until(t, "more stored after the trouble", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(acked) > before+50
	})
	close(stop)
	all.Wait()
	return acked, refused
}

func checkStored(t *testing.T, s *Stream, acked, refused map[string]bool) {
	t.Helper()
	var there map[string]bool
	var missing []string
	defer func() {
		t.Logf("%d acknowledged, %d refused, %d there, missing %q", len(acked), len(refused), len(there), missing)
	}()
	// Any replica answers, and one that was away may not have the latest yet.
	await.Until(t, "all that was acknowledged is there", func() bool {
		ids, _ := storedJobs(t, s, "a")
		there, missing = map[string]bool{}, nil
		for _, id := range ids {
			there[id] = true
		}
		for id := range acked {
			if !there[id] {
				missing = append(missing, id)
			}
		}
		return len(missing) == 0
	})
	for id := range refused {
		if there[id] {
			t.Errorf("%s was refused and is there", id)
		}
	}
}
