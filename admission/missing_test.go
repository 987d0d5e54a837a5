package admission

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/ruleset"
)

// Jobs of a queue with a missing rule are refused and counted until the rule exists again, logged once a minute, and
// their takes from other rules are given back.
func TestMissingRule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(rule("all.tenants", 100, nil), rule("all.calls", 100, nil))
		s.queues["mail"], s.queues["mail.otp"] = []string{"all.tenants", "all.calls"}, nil
		a, w, log := begin(t, s)
		next := &taker{}
		p := NewAppender(a, next)
		comes := func(name string) bool {
			t.Helper()
			answers, err := p.Append(t.Context(), []queue.Job{job(name, "1", "acme")})
			if err != nil {
				t.Fatal(err)
			}
			var missing *ruleset.Missing
			if errors.As(answers[0].Err, &missing) && (missing.Queue != name || missing.Rule != "all.calls" ||
				answers[0].Outcome != queue.Failed) {
				t.Errorf("%+v", answers[0])
			}
			if in := answers[0].Outcome == queue.Accepted; in == (missing != nil) {
				t.Errorf("%+v", answers[0])
			}
			return missing == nil
		}
		if !comes("mail") || !comes("mail.otp") {
			t.Fatal("all rules are there")
		}
		s.drop("all.calls")
		refused := 0
		for range 180 { // from the very first: what is remembered of the rule does not let them in, nor call it their fault
			for _, name := range []string{"mail", "mail.otp"} {
				if !comes(name) {
					refused++
				}
			}
			time.Sleep(time.Second)
		}
		if n := w.missed["mail all.calls"] + w.missed["mail.otp all.calls"]; refused != 360 || n != 360 {
			t.Errorf("%d of 360 refused, %d counted", refused, n)
		}
		if n := log.count("names a rule that cannot be asked"); n != 6 {
			t.Errorf("the log has it %d times, of two queues in three minutes", n)
		}
		if n := left(t, s, "all.tenants", "acme"); n != 100 {
			t.Errorf("%d left of 100: what was taken for them is not given back", n)
		}
		s.put(rule("all.calls", 100, nil))
		time.Sleep(maxAge)
		if !comes("mail") || !comes("mail.otp") {
			t.Error("it is there again")
		}
	})
}

// With more queues than it remembers, only some are logged.
func TestMissingRulesAreBounded(t *testing.T) {
	l := &missingRules{logged: map[[2]string]time.Time{}}
	said := 0
	for i := range 3 * maxMissing {
		if l.first(&ruleset.Missing{Queue: string(rune('a'+i%26)) + queue.NewID(), Rule: "all.calls"}) {
			said++
		}
	}
	if said != maxMissing || len(l.logged) != maxMissing {
		t.Errorf("said %d, remembered %d", said, len(l.logged))
	}
	for at := range l.logged {
		l.logged[at] = time.Now().Add(-missingEvery)
	}
	if !l.first(&ruleset.Missing{Queue: "mail", Rule: "all.calls"}) || len(l.logged) != 1 {
		t.Errorf("what is old is in the way: %d", len(l.logged))
	}
}
