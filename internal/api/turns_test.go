package api_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

// A caller that wants to report what it used gets a lease, which is kept until it settles it, or the time is over.
func TestTurnsSettled(t *testing.T) {
	f, e := serveTurns(t, `{"rate":"unlimited","pull":true,"lease":"1s","limits":[{"unit":"tokens","quota":"100000/d"}],
		"estimate":{"tokens":{"default":50}}}`)
	time.Sleep(2 * queue.Horizon) // departures right after a change of the limits are not corrected
	used := func() int64 {
		i, err := e.Get(t.Context(), "calls")
		if err != nil {
			t.Fatal(err)
		}
		s, _ := i.QuotaState(0)
		return s.Used
	}
	lend := func(body string) (turn wire.Turn) {
		a := f.do("POST", turns, body)
		a.want(t, 200)
		if err := json.Unmarshal([]byte(a.text), &turn); err != nil || turn.LentTurn == nil {
			t.Fatalf("%s: %v", a.text, err)
		}
		return turn
	}
	settle := func(turn wire.Turn, tokens string) *answer {
		return f.do("POST", "/v1/queues/calls/settle", fmt.Sprintf(
			`{"jobs":[{"id":%q,"lease":%q,"outcome":"delivered","actual":{"tokens":%s}}]}`, turn.ID, turn.Lease.Lease, tokens))
	}
	first, second := lend(`{"costs":{"tokens":700},"report_within":"1h"}`), lend(`{"report_within":"1s"}`)
	if first.Costs["tokens"] != 700 || second.Costs["tokens"] != 50 || used() != 750 {
		t.Errorf("charged %v and %v, in all %d", first.Costs, second.Costs, used())
	}
	time.Sleep(2500 * time.Millisecond) // the first is kept longer than its lease, the second is not kept that long
	settle(first, "-1").want(t, 400, "field", "jobs.0.actual.tokens")
	settle(first, "432").want(t, 200)
	settle(first, "432").want(t, 200) // repeated
	settle(second, "7").want(t, 200)  // as a repetition of how it ended, which is too late to change
	if n := used(); n != 482 {
		t.Errorf("%d are charged", n)
	}
	await.Until(t, "the turns are over", func() bool {
		info, err := e.Get(t.Context(), "calls")
		return err == nil && info.Size() == 0 && info.Delivered == 2 && info.TimedOut == 0
	})
	f.do("POST", turns, `{"report_within":"2h"}`).want(t, 400, "reason", "invalid_field", "field", "report_within")
	f.do("POST", turns, `{"report_within":"0s"}`).want(t, 400, "reason", "invalid_field", "field", "report_within")
	lend(`{"report_within":"1h"}`) // and the API closes without a report
}
