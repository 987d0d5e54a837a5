package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/test/long"
)

// TestKillUnderWriters kills penstock up, under 64 writers, again and again, and looks for every job that was
// acknowledged: after each restart for those since the one before, and in the end for all. Nobody appends a job again
// that was lost, so the end misses it too.
func TestKillUnderWriters(t *testing.T) {
	t.Parallel()
	const writers = 64
	rounds := long.Of(6, 20)
	dir := t.TempDir()
	var all, latest [][]byte
	for round := range rounds {
		s := up(t, "--no-auth", "--data", dir)
		api, err := client.New(s.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			spec := json.RawMessage(`{"rate":"1/h","capacity":100000000}`)
			if _, err := api.Put(t.Context(), "crash", spec, client.Absent); err != nil {
				t.Fatal(err)
			}
		}
		mustHold(t, api, latest)

		latest = write(t, s, round, writers)
		if len(latest) == 0 {
			t.Fatalf("round %d: nothing was acknowledged before the kill, so nothing was tested", round)
		}
		all = append(all, latest...)
	}
	s := up(t, "--no-auth", "--data", dir)
	api, err := client.New(s.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	mustHold(t, api, all)
	q, err := api.Queue(t.Context(), "crash")
	if err != nil {
		t.Fatal(err)
	}
	// Those that were not acknowledged may be in as well, but not more than were
	// under way when a kill came. One job may have departed into nowhere.
	if q.Stats.Appended < int64(len(all)) || q.Stats.Appended > int64(len(all)+rounds*writers) {
		t.Errorf("the store counts %d, %d were acknowledged", q.Stats.Appended, len(all))
	}
	t.Logf("%d jobs acknowledged over %d kills", len(all), rounds)
}

// write has writers append jobs one by one until the server, which is killed
// meanwhile, answers no more. It returns the acknowledged ones.
func write(t *testing.T, s *server, round, writers int) (acked [][]byte) {
	t.Helper()
	hc := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: writers}}
	defer hc.CloseIdleConnections()
	var mu sync.Mutex
	var refused []byte // what was said last
	var wg sync.WaitGroup
	enough := make(chan struct{})
	var once sync.Once
	for w := range writers {
		wg.Go(func() {
			for n, again := 0, false; ; {
				job := fmt.Sprintf(`{"id":"r%d-w%d-%d","payload":{"round":%d,"n":%d}}`, round, w, n, round, n)
				resp, err := hc.Post(s.url+"/v1/queues/crash/jobs", "application/json", strings.NewReader(job))
				if err != nil {
					return // it is dead
				}
				said, _ := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				switch status := resp.StatusCode; {
				case status >= 500: // not in time, on a machine that is slow; it may be in all the same, so it comes again as it is
					mu.Lock()
					refused, again = said, true
					mu.Unlock()
					continue
				case status == http.StatusAccepted, again && status == http.StatusOK:
					n, again = n+1, false
				default:
					t.Errorf("status %d: %s", status, said)
					return
				}
				mu.Lock()
				acked = append(acked, []byte(job))
				// Kill in full flight, a little later in each round.
				if len(acked) == 300+37*round {
					once.Do(func() { close(enough) })
				}
				mu.Unlock()
			}
		})
	}
	select {
	case <-enough:
	case <-time.After(2 * time.Minute): // it hangs; a machine that is merely slow is not judged
		mu.Lock()
		t.Errorf("round %d: too few were acknowledged in 2 min; it last refused one with: %s", round, refused)
		mu.Unlock()
	}
	s.kill()
	wg.Wait()
	return acked
}

// mustHold appends the jobs once more: each that is there answers duplicate.
func mustHold(t *testing.T, api *client.Client, jobs [][]byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	missing := 0
	for len(jobs) > 0 {
		part := jobs[:min(1000, len(jobs))]
		jobs = jobs[len(part):]
		answers, err := api.Append(ctx, "crash", part)
		if err != nil {
			t.Fatal(err)
		}
		for i := range answers {
			if !answers[i].Duplicate() {
				if missing++; missing <= 10 {
					t.Errorf("was acknowledged and is gone: %s (%d %s)", part[i], answers[i].Status, answers[i].State)
				}
			}
		}
	}
	if missing > 0 {
		t.Fatalf("%d acknowledged jobs are gone", missing)
	}
}
