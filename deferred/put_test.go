package deferred

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/penstock/penstock/internal/app/natsserver"
	"github.com/penstock/penstock/queue"
)

// stored reads all jobs that a queue has on the overflow.
func storedJobs(t *testing.T, s *Stream, name string) (ids []string, messages int) {
	t.Helper()
	for from := uint64(1); ; {
		f, err := s.fetch(t.Context(), s.subjects.of(name), from, maxBatch)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range f.messages {
			items, err := decode(name, m.body)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range items {
				ids = append(ids, i.ID)
			}
		}
		messages += len(f.messages)
		if f.pending == 0 {
			return ids, messages
		}
		from = f.last + 1
	}
}

func itemsFor(name string, ids []string) []Item {
	items := make([]Item, len(ids))
	for i, id := range ids {
		items[i] = itemFor(job(name, id), "")
	}
	return items
}

func noError(t *testing.T, errs []error) {
	t.Helper()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
}

// Items of one call are stored in order, several jobs per message.
func TestPut(t *testing.T) {
	s := newStream(t)
	ids := numbered(1000)
	noError(t, s.Put(t.Context(), itemsFor("a", ids)))
	got, messages := storedJobs(t, s, "a")
	if fmt.Sprint(got) != fmt.Sprint(ids) {
		t.Errorf("got %d jobs: %v", len(got), got)
	}
	if want := 500/maxJobs + 1; messages != 2*want { // two flights
		t.Errorf("%d messages", messages)
	}
	if errs := s.Put(t.Context(), nil); len(errs) != 0 {
		t.Error(errs)
	}
}

// Concurrent callers share messages, and the jobs of a message belong to one queue.
func TestPutTogether(t *testing.T) {
	s := newStream(t)
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			name := fmt.Sprintf("q%d", i%2)
			for k := range 20 {
				for _, err := range s.Put(t.Context(), itemsFor(name, []string{fmt.Sprintf("%d-%d", i, k)})) {
					if err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	for _, name := range []string{"q0", "q1"} {
		ids, messages := storedJobs(t, s, name)
		next := map[string]int{}
		for _, id := range ids {
			var i, k int
			if _, err := fmt.Sscanf(id, "%d-%d", &i, &k); err != nil || next[fmt.Sprint(i)] != k ||
				fmt.Sprintf("q%d", i%2) != name {
				t.Fatalf("%s has %s where %d of %d should be", name, id, next[fmt.Sprint(i)], i)
			}
			next[fmt.Sprint(i)]++
		}
		if len(ids) != 2000 || messages >= len(ids)/2 {
			t.Errorf("%d jobs in %d messages", len(ids), messages)
		}
	}
}

func TestLoad(t *testing.T) {
	big := strings.Repeat("x", 100)
	var packed []packedJob
	for i := range 130 {
		packed = append(packed, packedJob{"a", []byte{byte(i)}})
	}
	packed = append(
		packed, packedJob{"b", []byte(big)}, packedJob{"b", []byte("1")}, packedJob{"a", []byte(big + "x")},
		packedJob{"b", []byte("2")},
	)
	var got []string
	for _, m := range load(packed, 100) {
		got = append(got, fmt.Sprintf("%s %d jobs %d bytes", m.queue, len(m.at), len(m.body)))
	}
	want := []string{
		"a 64 jobs 64 bytes", "a 64 jobs 64 bytes", "a 2 jobs 2 bytes", "b 1 jobs 100 bytes", "b 2 jobs 2 bytes",
		"a 1 jobs 101 bytes",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// A job too large for NATS is refused alone, and the jobs beside it are stored. The largest job that fits can become a
// dead letter, too.
func TestPutTooLarge(t *testing.T) {
	s := openStream(t, connect(t, startNATSWith(t, 1<<20).URL()), Options{})
	large := func(id string, n int) Item {
		return itemFor(queue.Job{Queue: "a", ID: id, Payload: make([]byte, n)}, "")
	}
	empty := large("b", 0)
	fits := int(s.nc.MaxPayload()) - headroom - len(encode(&empty)) - 2 // two more bytes say how long it is
	errs := s.Put(t.Context(), []Item{
		large("a", 10), large("b", fits), large("c", fits+1), large("d", queue.MaxPayloadBytes), large("e", 10),
	})
	for i, tooLarge := range []bool{false, false, true, true, false} {
		if tooLarge != errors.Is(errs[i], ErrTooLarge) || !tooLarge && errs[i] != nil {
			t.Errorf("%d: %v", i, errs[i])
		}
	}
	if ids, _ := storedJobs(t, s, "a"); fmt.Sprint(ids) != "[a b e]" {
		t.Error(ids)
	}
	b := large("b", fits)
	b.Headers = nil
	if err := s.bury(t.Context(), []deadLetter{{
		subject: s.subjects.of("a"), seq: 1, reason: Clash, detail: strings.Repeat("d", 1000), item: &b,
	}}); err != nil {
		t.Error(err)
	}
}

// Every limit of a stream or server counts as a full overflow, and no refused job is stored.
func TestPutFull(t *testing.T) {
	limits := map[string]struct {
		server natsserver.Options
		change func(*jetstream.StreamConfig)
	}{
		"max_bytes": {change: func(c *jetstream.StreamConfig) { c.MaxBytes = 100 << 10 }},
		"max_msgs":  {change: func(c *jetstream.StreamConfig) { c.MaxMsgs = 5 }},
		"max_file_store": {
			server: natsserver.Options{MaxStore: 100 << 10}, change: func(c *jetstream.StreamConfig) { c.MaxBytes = -1 },
		},
	}
	for name, limit := range limits {
		t.Run(name, func(t *testing.T) {
			o := limit.server
			o.Dir, o.Listen, o.LazySync = t.TempDir(), "127.0.0.1:0", true
			server, err := natsserver.Start(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(server.Stop)
			nc := connect(t, server.URL())
			js, err := jetstream.New(nc)
			if err != nil {
				t.Fatal(err)
			}
			wants, err := Options{}.withDefaults()
			if err != nil {
				t.Fatal(err)
			}
			config, dead := settings(wants)
			limit.change(&config)
			dead.MaxBytes = -1
			for _, c := range []jetstream.StreamConfig{config, dead} {
				if _, err := js.CreateStream(t.Context(), c); err != nil {
					t.Fatal(err)
				}
			}
			s := openStream(t, nc, Options{})
			stored := 0
			for i := range 100 {
				i := itemFor(queue.Job{Queue: "a", ID: fmt.Sprint(i), Payload: make([]byte, 10<<10)}, "")
				err := s.Put(t.Context(), []Item{i})[0]
				if err == nil {
					stored++
					continue
				}
				if !errors.Is(err, ErrFull) || errors.Is(err, queue.ErrOutcomeUnknown) {
					t.Fatal(err)
				}
				if s.Status().Err == nil {
					t.Error("the status does not say so")
				}
			}
			ids, _ := storedJobs(t, s, "a")
			if len(ids) != stored || stored == 0 || stored == 100 {
				t.Errorf("%d stored, %d there", stored, len(ids))
			}
		})
	}
}

// A caller who gives up before its jobs were sent knows that they were not.
func TestPutGivenUp(t *testing.T) {
	s, err := open(t.Context(), connect(t, startNATS(t).URL()), Options{})
	if err != nil {
		t.Fatal(err)
	}
	stop := start(t, s.Run)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Put(ctx, itemsFor("a", []string{"1"}))[0]; !errors.Is(err, ErrUnavailable) ||
		errors.Is(err, queue.ErrOutcomeUnknown) {
		t.Error(err)
	}
	stop()
	if err := s.Put(t.Context(), itemsFor("a", []string{"1"}))[0]; !errors.Is(err, ErrUnavailable) ||
		errors.Is(err, queue.ErrOutcomeUnknown) {
		t.Error(err)
	}
}
