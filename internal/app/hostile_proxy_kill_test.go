package app

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
)

// One of three ingresses is killed while callers wait in all of them. What arrives at the receiver keeps the law, each call
// arrives at most once, and the callers of the others are all answered, in the turns of the dead too.
func TestHostileProxyKilled(t *testing.T) {
	t.Parallel() // it mostly waits
	const callers, each = 9, 15
	rate := leaky.PerSecond(50)
	began := time.Now()
	var mu sync.Mutex
	var starts []time.Duration
	seen := map[string]int{}
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		at := time.Since(began)
		mu.Lock()
		defer mu.Unlock()
		starts = append(starts, at)
		seen[r.URL.Path]++
	}))
	defer receiver.Close()
	redis := redistest.New(t, redistest.Options{})
	var fronts []*front
	for range 3 {
		fronts = append(fronts, startFront(t, "--redis", redis.URL(), "--init", "--egress-allow", "127.0.0.1"))
	}
	send(t, http.MethodPut, fronts[0].url+"/v1/queues/work", fmt.Sprintf(
		`{"rate":"50/s","slack":"50ms","lease":"2s","pull":true,"deliver":{"http":{"url":%q}}}`, receiver.URL,
	), "application/json")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var all sync.WaitGroup
	var answered, cut atomic.Int64
	killed := make(chan struct{})
	kill := sync.OnceFunc(func() {
		go func() { defer close(killed); fronts[1].kill() }()
	})
	for c := range callers {
		all.Go(func() {
			for n := range each {
				status, text, err := callThrough(ctx, fronts[c%3].url, fmt.Sprintf("%d-%d", c, n))
				switch {
				case err == nil && status == http.StatusOK:
					if answered.Add(1) == callers*each/3 {
						kill()
					}
				case c%3 == 1 && err != nil: // its ingress is dead
					cut.Add(1)
					return
				default:
					t.Errorf("caller %d: %d %s, %v", c, status, text, err)
				}
			}
		})
	}
	all.Wait()
	<-killed
	mu.Lock()
	defer mu.Unlock()
	for path, n := range seen {
		if n != 1 {
			t.Errorf("%s arrived %d times", path, n)
		}
	}
	if most := int(answered.Load() + cut.Load()); len(starts) < int(answered.Load()) || len(starts) > most || cut.Load() == 0 {
		t.Errorf("%d arrived, %d were answered, and %d cut off", len(starts), answered.Load(), cut.Load())
	}
	l := law.Law{Rate: rate, Slack: 50 * time.Millisecond, Delta: callers * rate.Interval()}
	if v := l.Judge(law.At(starts)); !v.Held {
		t.Errorf("the window law needs %v: %+v", v.Needed, v.Worst)
	}
	t.Logf("%d answered, %d cut off, %d arrived", answered.Load(), cut.Load(), len(starts))
}

// callThrough sends a call with an id as its path.
func callThrough(ctx context.Context, base, id string) (status int, text string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/proxy/work/"+id, strings.NewReader("{}"))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Penstock-Wait", "1m")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}
