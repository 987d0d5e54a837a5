package prove

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/rules"
)

// desk is an installation of several ingresses whose rules are decided by this test, correctly or not.
type desk struct {
	// by replaces a rule's limiter after some time of the run; apart lets each ingress count for itself.
	by    func(own leaky.Limiter, after time.Duration) leaky.Limiter
	apart bool

	mu      sync.Mutex
	begun   time.Time
	rules   map[string]leaky.Limiter
	tallies map[string]leaky.Tally
	removed int
}

func (d *desk) MakeRule(_ context.Context, rule rules.Rule) error {
	by, err := rule.Limiter(rule.Algorithm)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rules[rule.Name] = by
	return nil
}

func (d *desk) RemoveRule(context.Context, string) error {
	d.removed++
	return nil
}

// ingress returns the handler of the named ingress.
func (d *desk) ingress(name string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /v1/rules/{rule}/take", func(w http.ResponseWriter, r *http.Request) {
		var ask wire.Take
		if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		status, reason := http.StatusOK, ""
		if known, allowed := d.take(name, r.PathValue("rule"), ask); !known {
			status, reason = http.StatusNotFound, "unknown_rule"
		} else if !allowed {
			status, reason = http.StatusTooManyRequests, "limit_reached"
		}
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"allowed": status == http.StatusOK, "reason": reason})
	})
	return mux
}

func (d *desk) take(ingress, rule string, ask wire.Take) (known, allowed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	own, known := d.rules[rule]
	if !known {
		return false, false
	}
	by := d.by(own, time.Since(d.begun))
	key := rule + " " + ask.Key
	if d.apart {
		key += " " + ingress
	}
	tally := by.Fresh()
	if was := d.tallies[key]; was != nil {
		state, err := was.AppendBinary(nil)
		if err != nil {
			return true, false
		}
		if tally, err = by.Restore(state); err != nil {
			return true, false
		}
	}
	d.tallies[key] = tally
	return true, tally.Take(leaky.Instant(time.Now().UnixMicro()), leaky.Ask{Cost: ask.Cost + ask.Costs["tokens"]}).Allowed
}

// looser returns a limiter that allows three times as much.
func looser(l leaky.Limiter) leaky.Limiter {
	thrice := func(r leaky.Rate) leaky.Rate { n, d := r.Fraction(); return leaky.RateOf(3*n, d) }
	switch l := l.(type) {
	case leaky.Meter:
		return leaky.Meter{Rate: thrice(l.Rate), Burst: 3 * l.Burst}
	case leaky.TokenBucket:
		return leaky.TokenBucket{Rate: thrice(l.Rate), Capacity: 3 * l.Capacity}
	case leaky.Allowance:
		return leaky.Allowance{Rate: thrice(l.Rate), Burst: 3 * l.Burst}
	case leaky.FixedWindow:
		return leaky.FixedWindow{Max: 3 * l.Max, Period: l.Period}
	case leaky.SlidingLog:
		return leaky.SlidingLog{Max: 3 * l.Max, Period: l.Period}
	case leaky.SlidingCounter:
		return leaky.SlidingCounter{Max: 3 * l.Max, Period: l.Period}
	case leaky.Gap:
		return leaky.Gap{Least: l.Least / 3}
	}
	return l
}

// options returns the options of a run on it, with two ingresses.
func (d *desk) options(t *testing.T) RulesOptions {
	t.Helper()
	cat, err := exec.LookPath("cat") // a process that does nothing and ends with its standard input
	if err != nil {
		t.Fatal(err)
	}
	d.begun, d.rules, d.tallies, d.removed = time.Now(), map[string]leaky.Limiter{}, map[string]leaky.Tally{}, 0
	o := RulesOptions{
		Store: d, Ingress: func(int) Command { return Command{Path: cat} }, Rate: leaky.PerSecond(10), Keys: 1,
		Duration: 3 * time.Second, Faults: NoFaults,
	}
	for _, name := range []string{"a", "b"} {
		s := httptest.NewServer(d.ingress(name))
		t.Cleanup(s.Close)
		o.URLs = append(o.URLs, s.URL)
	}
	return o
}
