package app_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/redistest"
)

// asks puts a rule of another group, and has the queue of the plant ask it.
func (p *plant) asks(t *testing.T, rule, queue string) {
	t.Helper()
	if status, text := call(t, "PUT", p.rule(), rule, "application/json"); status/100 != 2 {
		t.Fatalf("%d %s", status, text)
	}
	spec := strings.Replace(queue, "{", `{"rules":["tenants.mail"],"deliver":{"http":{"url":"`+p.target.URL+`"}},`, 1)
	if status, text := call(t, "PUT", p.base, spec, "application/json"); status/100 != 2 {
		t.Fatalf("%d %s", status, text)
	}
	await.Until(t, "the ingress asks the rule", func() bool { // it goes by a queue as it was a second ago
		_, text := call(t, "POST", p.base+"/jobs", `{"id":"first","payload":{"id":"first"}}`, "application/json")
		_, said := call(t, "GET", p.top()+"/metrics", "", "")
		return strings.Contains(text, "first") && strings.Contains(
			said, `penstock_rule_decisions_total{outcome="allowed",rule="tenants.mail"}`,
		)
	})
}

func (p *plant) top() string  { return strings.TrimSuffix(p.base, "/v1/queues/email") }
func (p *plant) rule() string { return p.top() + "/v1/rules/tenants.mail" }

// counts waits until what is told of the queue has all of these parts.
func (p *plant) counts(t *testing.T, parts ...string) {
	t.Helper()
	await.Until(t, fmt.Sprint("the queue has ", parts), func() bool {
		_, text := call(t, "GET", p.base, "", "")
		return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) })
	})
}

// left checks what the rule has left of its limit.
func (p *plant) left(t *testing.T, want int) {
	t.Helper()
	_, text := call(t, "POST", p.rule()+"/peek", "", "application/json")
	if part := fmt.Sprintf(`"remaining":%d,`, max(0, want-1)); !strings.Contains(text, part) ||
		strings.Contains(text, `"allowed":true`) != (want > 0) {
		t.Errorf("%d should be left: %s", want, text)
	}
}

const deferring = `{"algorithm":"sliding_log","limit":20,"period":"1h","action":"defer"}`

// What a rule of another group refuses that defers is delivered later, in order and once, whatever the queue says of
// its overflow; the rule lets as many through at once as it may, and is charged for no more.
func TestRuleOfAnotherGroupDefers(t *testing.T) {
	t.Parallel()
	const queue = `{"rate":"500/s","slack":"10s","capacity":1000}`
	d := departures{mu: new(sync.Mutex), left: map[string]int64{}}
	p := newPlantSeen(t, queue, redistest.Patience, func(h drain.Handler) drain.Handler { d.Handler = h; return d })
	p.asks(t, deferring, queue)
	accepted, order := map[string]bool{"first": true}, []string{"first"}
	for i := range 100 {
		id := fmt.Sprintf("j%d", i)
		want := "waiting"
		if i >= 19 {
			want = "deferred"
		}
		if status, state, _ := p.post(t, id, ""); status != 202 || state != want {
			t.Fatalf("job %d: %d %s, want it %s", i, status, state, want)
		}
		accepted[id], order = true, append(order, id)
	}
	p.left(t, 0)
	// an hour has 3600 seconds
	if status, word, retry := p.post(t, "never", `,"overflow":"reject"`); status != 429 || word != "limit_reached" ||
		len(retry) != 4 {
		t.Errorf("one that may not wait: %d %s, Retry-After %q", status, word, retry)
	}
	p.arrived(t, accepted)
	if got := d.inOrder(); !slices.Equal(got, order) {
		t.Errorf("they left as %v", got)
	}
	p.counts(t, `"deferred":0`, `"delivered":101`, `"returned":81`)
	_, said := call(t, "GET", p.top()+"/metrics", "", "")
	for _, part := range []string{
		`penstock_rule_decisions_total{outcome="allowed",rule="tenants.mail"} 20`,
		`penstock_rule_decisions_total{outcome="refused",rule="tenants.mail"} 82`,
		`penstock_appended_total{outcome="deferred",queue="email"} 81`,
		`penstock_refused_total{queue="email",reason="limit_reached"} 1`,
	} {
		if !strings.Contains(said, part) {
			t.Errorf("no %s in the metrics", part)
		}
	}

	// Many producers at once.
	if status, text := call(t, "POST", p.rule()+"/reset", "", ""); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	states := map[string]int{}
	for worker := range 8 {
		all.Go(func() {
			for i := range 15 {
				id := fmt.Sprintf("w%d-%d", worker, i)
				status, state, _ := p.post(t, id, "")
				mu.Lock()
				if states[state]++; status != 202 {
					t.Errorf("job %s: %d %s", id, status, state)
				}
				accepted[id] = true
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if states["waiting"] != 20 || states["deferred"] != 100 {
		t.Errorf("states: %v", states)
	}
	p.left(t, 0)
	p.arrived(t, accepted)
}

// Put aside by a rule of another group, a job is known by its id; when the overflow is full or away it is turned away,
// and charged to nothing; and while the engine is away it goes onto the overflow past it. A rule that only shadows puts
// nothing aside.
func TestRuleOfAnotherGroupDefersThroughTrouble(t *testing.T) {
	t.Parallel()
	const queue = `{"rate":"500/s","slack":"10s","capacity":10,"deferred":{"max_jobs":3}}`
	p := newPlantSeen(t, queue, 0, unseen)
	call(t, "POST", p.base+"/pause", "", "")
	p.asks(t, strings.Replace(deferring, "20", "1", 1), queue)
	accepted := map[string]bool{"first": true}
	send := func(id, want string) {
		t.Helper()
		if status, word, _ := p.post(t, id, ""); status != 202 || word != want {
			t.Fatalf("%s: %d %s, want it %s", id, status, word, want)
		}
		accepted[id] = true
	}
	refused := func(id, more string, status int, word string) {
		t.Helper()
		if got, reason, retry := p.post(t, id, more); got != status || reason != word || retry == "" || retry == "0" {
			t.Errorf("%s: %d %s, Retry-After %q; want %d %s", id, got, reason, retry, status, word)
		}
	}

	for i := range 5 { // as many come back as have places, up to the low-water mark
		send(fmt.Sprint("back", i), "deferred")
		p.counts(t, fmt.Sprintf(`"returned":%d`, i+1), `"deferred":0`)
	}
	for i := range 3 {
		send(fmt.Sprint("aside", i), "deferred")
	}
	p.counts(t, `"waiting":6`, `"deferred":3`)
	if status, state, _ := p.post(t, "aside0", ""); status != 200 || state != "deferred" {
		t.Errorf("sent again: %d %s", status, state)
	}
	if status, text := call(
		t, "POST", p.base+"/jobs", `{"id":"aside0","payload":"another"}`, "application/json",
	); status != 409 {
		t.Errorf("another job of the id: %d %s", status, text)
	}
	refused("full", "", 429, "overflow_full")
	refused("full", `,"overflow":"reject"`, 429, "limit_reached")
	p.left(t, 0)
	call(t, "POST", p.base+"/resume", "", "")
	p.arrived(t, accepted)
	p.counts(t, `"deferred":0`)

	// NATS is away: what could not be stored is not known either.
	p.nats.Stop()
	await.Until(t, "the ingress notices", func() bool {
		_, text := call(t, "GET", p.top()+"/readyz", "", "")
		return strings.Contains(text, `"overflow":"unavailable"`)
	})
	refused("nats", "", 503, "overflow_unavailable")
	if status, text := call(t, "GET", p.base+"/jobs/nats", "", ""); status != 404 {
		t.Errorf("what could not be stored: %d %s", status, text)
	}
	if err := p.nats.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "NATS is noticed", func() bool {
		status, _, _ := p.post(t, "nats", "")
		return status == 202 || status == 200
	})
	accepted["nats"] = true
	p.arrived(t, accepted)

	// Redis is away: the rule says no by its away, and what it refuses goes where the engine would put it.
	if err := p.redis.Kill(); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		send(fmt.Sprint("redis", i), "deferred")
	}
	refused("redis", `,"overflow":"reject"`, 429, "limit_reached")
	if err := p.redis.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.arrived(t, accepted)
	p.left(t, 0)

	p.counts(t, `"deferred":0`)
	p.asks(t, strings.NewReplacer("20", "1", "defer", "shadow").Replace(deferring), queue)
	n := 0
	await.Until(t, "the ingress goes by it as it is", func() bool {
		n++
		id := fmt.Sprint("shadow", n)
		status, state, _ := p.post(t, id, "")
		if status == 202 {
			accepted[id] = true
		}
		return state == "waiting"
	})
	p.arrived(t, accepted)
}
