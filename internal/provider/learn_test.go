package provider

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/internal/provider/rivals"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

func rateOf(t *testing.T, text string) leaky.Rate {
	t.Helper()
	rate, err := leaky.ParseRate(text)
	if err != nil {
		t.Fatal(err)
	}
	return rate
}

// A drainer uses a provider's limit as its rate, while another program with the same key uses a fifth of it. A queue
// that learns leaves that fifth alone; one that does not runs into the limit.
func TestLearningFromAProvider(t *testing.T) {
	for _, c := range []struct {
		learn                            string
		latency                          time.Duration
		mostRefused, leastRefused, least int
	}{
		{"openai", 100 * time.Millisecond, 3, 0, 3750},
		{"openai", 5 * time.Second, 3, 0, 3750},
		{"", 100 * time.Millisecond, 1e9, 10, 0},
	} {
		t.Run(fmt.Sprintf("%q, answers after %v", c.learn, c.latency), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, Options{Provider: OpenAI, Requests: Limit{500, time.Minute}, Burst: 50})
				n := r.begin(c.latency, 0, 10*time.Minute)
				spec := queue.Spec{Name: "q", Rate: rateOf(t, "500/m"), Learn: c.learn, Capacity: 10_000}
				ours := n.beside(hello, 600*time.Millisecond, func() *tally { return n.drain(spec, 1) })
				t.Log(ours)
				if ours.refused > c.mostRefused || ours.refused < c.leastRefused || ours.calls-ours.refused < c.least {
					t.Errorf("%d calls, at least %d wanted; %d refusals", ours.calls, c.least, ours.refused)
				}
			})
		})
	}
}

// beside has something done while another program with the same key makes a call at regular intervals.
func (c *contest) beside(call string, every time.Duration, do func() *tally) *tally {
	var other sync.WaitGroup
	defer other.Wait()
	other.Go(func() {
		for end := time.Now().Add(c.long); time.Now().Before(end); time.Sleep(every) {
			c.chat(call)
		}
	})
	return do()
}

// Eight drainers use a provider that allows 500 requests and 200,000 tokens per minute. Tokens run out first, and what
// a call costs is not known before. The queue uses nearly all tokens, without a refusal; each rival misses one of the
// two.
func TestTokensForTenMinutes(t *testing.T) {
	const perMinute, perCall, most = 200_000, 800, 6000
	tokens := queue.Spec{
		Name: "q", Rate: rateOf(t, "500/m"), Capacity: 10_000,
		Limits:   []queue.Limit{{Unit: "tokens", Rate: rateOf(t, "200000/m"), Burst: 20_000}},
		Estimate: map[string]queue.Estimate{"tokens": {Default: perCall}},
	}
	learning := tokens
	learning.Learn = "openai"
	rival := func(run rivals.Rival) func(*contest) *tally {
		return func(n *contest) *tally { return n.rival(run, 8, perMinute, most) }
	}
	beside := func(spec queue.Spec) func(*contest) *tally {
		return func(n *contest) *tally { // which uses a fifth: 50 calls of 800 tokens per minute
			return n.beside(talk, 1200*time.Millisecond, func() *tally { return n.drain(spec, 8) })
		}
	}
	for _, c := range []struct {
		name                      string
		leastRefused, mostRefused int
		least, most               float64 // percent of the tokens
		run                       func(*contest) *tally
	}{
		{"penstock", 0, 0, 95, 102, func(n *contest) *tally { return n.drain(tokens, 8) }},
		{"reserving", 0, 0, 10, 20, rival(rivals.Reserving)},
		// The burst of the provider comes on top.
		{"counting", 100, 1e9, 95, 115, rival(rivals.Counting)},
		{"retrying", 100, 1e9, 95, 115, rival(rivals.Retrying)},
		{"penstock beside another", 0, 3, 75, 100, beside(learning)},
		{"penstock beside another, without learning", 10, 1e9, 75, 100, beside(tokens)},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, Options{
					Provider: OpenAI, Requests: Limit{500, time.Minute}, Tokens: Limit{perMinute, time.Minute}, Seed: 1,
				})
				n := r.begin(time.Second, 10*time.Second, 10*time.Minute)
				got := c.run(n)
				share := 100 * float64(got.tokens) / (perMinute * (n.long - 10*time.Second).Minutes())
				t.Logf("%v: %.1f%% of the tokens used", got, share)
				if share < c.least || share > c.most || got.refused < c.leastRefused || got.refused > c.mostRefused {
					t.Errorf("%.1f%% of the tokens used, %d refusals", share, got.refused)
				}
			})
		})
	}
}
