package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/prove/receiver"
	"github.com/penstock/penstock/internal/test/long"
)

// TestKillUnderDeferral kills penstock up, under writers whose jobs find no room, again
// and again. In the end everything that was acknowledged has been delivered: what was in
// the queue, on the overflow, and on the way between the two, either way.
func TestKillUnderDeferral(t *testing.T) {
	t.Parallel()
	const writers, inFlight = 32, 128
	rounds := long.Of(4, 10)
	var mu sync.Mutex
	delivered := map[string]int{}
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		delivered[r.Header.Get(receiver.HeaderID)]++
	}))
	defer target.Close()

	dir := t.TempDir()
	var all [][]byte
	deferred := false
	for round := range rounds {
		s := up(t, "--no-auth", "--data", dir, "--egress-allow", "127.0.0.1")
		if round == 0 {
			api, err := client.New(s.url, nil)
			if err != nil {
				t.Fatal(err)
			}
			spec := fmt.Sprintf(
				`{"rate":"1000/s","slack":"10s","capacity":400,"overflow":"defer","deliver":{"http":{"url":%q}}}`, target.URL,
			)
			if _, err := api.Put(t.Context(), "crash", json.RawMessage(spec), client.Absent); err != nil {
				t.Fatal(err)
			}
		}
		acked := write(t, s, round, writers)
		if len(acked) == 0 {
			t.Fatalf("round %d: nothing was acknowledged before the kill, so nothing was tested", round)
		}
		all = append(all, acked...)
	}
	s := up(t, "--no-auth", "--data", dir, "--egress-allow", "127.0.0.1")
	api, err := client.New(s.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	missing := make([]string, len(all)) // the ids of those that were not delivered yet
	for i, job := range all {
		var j struct{ ID string }
		if err := json.Unmarshal(job, &j); err != nil {
			t.Fatal(err)
		}
		missing[i] = j.ID
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		q, err := api.Queue(t.Context(), "crash")
		if err != nil {
			t.Fatal(err)
		}
		deferred = deferred || q.Stats.SetAside > 0 && q.Stats.Returned > 0
		mu.Lock()
		missing = slices.DeleteFunc(missing, func(id string) bool { return delivered[id] > 0 })
		mu.Unlock()
		if len(missing) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d acknowledged jobs were not delivered, such as %s; the queue says %+v",
				len(missing), len(all), missing[0], q.Stats)
		}
	}
	if !deferred {
		t.Error("nothing was deferred, so nothing was tested")
	}
	mu.Lock()
	defer mu.Unlock()
	twice := 0
	for _, n := range delivered {
		twice += n - 1
	}
	// What was under way when a kill came may be delivered again, and nothing else.
	if twice > rounds*inFlight {
		t.Errorf("%d second deliveries over %d kills", twice, rounds)
	}
	t.Logf("%d jobs acknowledged over %d kills, %d delivered again", len(all), rounds, twice)
}
