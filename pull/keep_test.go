package pull_test

import (
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// putMetered sets a queue whose only limit is a quota of tokens.
func putMetered(t *testing.T, e queue.Engine) {
	t.Helper()
	var quota queue.Quota
	if err := quota.UnmarshalText([]byte("1000000/d")); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Put(t.Context(), queue.Spec{
		Name: "calls", Rate: leaky.Unlimited, Pull: true, Lease: unit.Duration(time.Second),
		Slack: unit.Duration(500 * time.Millisecond), Limits: []queue.Limit{{Unit: "tokens", Quota: quota}},
		Estimate: map[string]queue.Estimate{"tokens": {Default: 100}},
	}, queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
	<-time.After(2 * queue.Horizon) // departures right after a change of the limits are not corrected
}

// tokensUsed returns how many tokens are charged.
func tokensUsed(t *testing.T, e queue.Engine) int64 {
	t.Helper()
	info := infoOf(t, e, "calls")
	w, ok := info.QuotaState(0)
	if !ok {
		t.Fatal("there is no quota")
	}
	return w.Used
}

// Callers that state costs get turns with these costs, even if others wait for turns with other costs; and a turn that
// is kept lasts longer than its lease, and ends with what the call has used.
func TestTurnsWithCosts(t *testing.T) {
	onBoth(t, func(t *testing.T, process func() queue.Engine) {
		e := process()
		putMetered(t, e)
		turns := turnsOf(t, e, "calls")
		var came []*pull.Departure
		for _, tokens := range []int64{0, 700, 30, 700, -1} {
			r := pull.TurnRequest{Within: time.Minute}
			if tokens >= 0 {
				r.Costs = map[string]int64{"tokens": tokens}
			} else {
				tokens = 100 // the estimate
			}
			turn, err := turns.Request(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			d, err := turn.Come(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if d.Costs["tokens"] != tokens {
				t.Errorf("charged %v, want %d", d.Costs, tokens)
			}
			came = append(came, d)
		}
		if n := tokensUsed(t, e); n != 1530 {
			t.Errorf("%d tokens are charged", n)
		}
		came[1].Keep()
		came[4].Keep()
		for _, i := range []int{0, 2, 3} {
			came[i].End(queue.Settlement{})
		}
		<-time.After(2200 * time.Millisecond) // more than two leases
		if !came[1].End(queue.Settlement{Actual: map[string]int64{"tokens": 650}}) ||
			!came[4].End(queue.Settlement{Actual: map[string]int64{"tokens": 5, "images": 7}}) {
			t.Error("a turn that was kept is over")
		}
		came[1].Keep()
		turns.Close()
		// The costs of the last one cannot be charged: no limit counts images.
		if info := infoOf(t, e, "calls"); info.Size() != 0 || info.TimedOut != 0 || tokensUsed(t, e) != 1480 {
			t.Errorf("%d turns are left, %d timed out, %d tokens are charged", info.Size(), info.TimedOut, tokensUsed(t, e))
		}
	})
}

// Callers that want turns with different costs wait at the same time, and give up. Each gets its own kind, and nothing
// is left.
func TestCostsAreKinds(t *testing.T) {
	onBoth(t, func(t *testing.T, process func() queue.Engine) {
		e := process()
		putMetered(t, e)
		turns := turnsOf(t, e, "calls")
		if err := e.Pause(t.Context(), "calls", queue.Pause{}); err != nil {
			t.Fatal(err)
		}
		var list []*pull.Turn
		for i := range 6 {
			turn, err := turns.Request(t.Context(), pull.TurnRequest{
				Within: time.Minute, Costs: map[string]int64{"tokens": int64(i % 3)},
			})
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, turn)
		}
		list[5].Cancel(t.Context()) // 2 tokens
		list[1].Cancel(t.Context()) // 1 token
		await.Until(t, "two places are free", func() bool { return held(t, e, "calls") == 4 })
		if err := e.Resume(t.Context(), "calls"); err != nil {
			t.Fatal(err)
		}
		results := make(chan [2]int64, len(list))
		for _, i := range []int{4, 3, 2, 0} {
			go func() {
				d, err := list[i].Come(t.Context())
				if err != nil {
					t.Error(i, err)
					results <- [2]int64{}
					return
				}
				d.End(queue.Settlement{}) // before Close
				results <- [2]int64{int64(i % 3), d.Costs["tokens"]}
			}()
		}
		for range 4 {
			if got := <-results; got[0] != got[1] {
				t.Errorf("a caller that stated %d tokens is charged %d", got[0], got[1])
			}
		}
		turns.Close()
		if n := held(t, e, "calls"); n != 0 || tokensUsed(t, e) != 3 {
			t.Errorf("%d places are left, %d tokens are charged", n, tokensUsed(t, e))
		}
	})
}
