package api_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/penstock/penstock/internal/auth"
)

// With produce a caller gives back what it took itself, once. However it goes about it, what others took stays taken.
func TestHostileRefunds(t *testing.T) {
	t.Parallel()
	onSmallStores(t, func(t *testing.T, s *secured) {
		s.put("/v1/rules/acme-hour", `{"algorithm":"sliding_log","limit":10,"period":"1h","key":"{payload/k}"}`)
		s.put("/v1/rules/acme-other", `{"algorithm":"sliding_log","limit":10,"period":"1h","key":"{payload/k}"}`)
		s.put("/v1/rules/acme-shadow", `{"algorithm":"sliding_log","limit":1,"period":"1h","action":"shadow"}`)
		evil, victim, operate := s.with("acme", auth.Produce), s.with("acme", auth.Produce), s.with("acme", auth.Operate,
			auth.Produce)
		ask := func(token, op, body string) *answer { return s.by(token, "POST", "/v1/rules/acme-hour/"+op, body) }
		take := func(token, body string) (receipt string) {
			a := ask(token, "take", body)
			a.want(t, 200, "allowed", true)
			receipt, _ = a.body["receipt"].(string)
			return receipt
		}
		left := func(want int) {
			t.Helper()
			ask(s.operator, "peek", `{"key":"k"}`).want(t, 200, "remaining", want-1) // as after a take that followed
		}
		theirs, mine := take(victim, `{"key":"k","cost":4}`), take(evil, `{"key":"k","cost":2}`)
		if mine == "" || theirs == "" || take(operate, `{"key":"z"}`) != "" {
			t.Fatalf("receipts %q, %q, or one of who needs none", mine, theirs)
		}
		with := func(receipt, more string) string { return fmt.Sprintf(`{"key":"k","receipt":%q%s}`, receipt, more) }
		for name, body := range map[string]string{
			"another's": with(theirs, ""), "more than it took": with(mine, `,"cost":3`), "none": with("AAAA", ""),
			"another key": fmt.Sprintf(`{"key":"z","receipt":%q}`, mine), "no key": fmt.Sprintf(`{"receipt":%q}`, mine),
			"no cost": with(mine, `,"cost":0`), "less than none": with(mine, `,"cost":-1`),
			"a changed one": with(mine[:len(mine)-4]+"AAAA", ""), "with a lease": with(mine, `,"lease":"x"`),
			"no text": `{"key":"k","receipt":7}`,
		} {
			if a := ask(evil, "refund", body); a.status != 400 {
				t.Errorf("%s: %d %s", name, a.status, a.text)
			}
		}
		ask(evil, "refund", `{"key":"k"}`).want(t, 403, "reason", "forbidden", "field", "receipt")
		ask(evil, "refund", `{"takes":[`+with(mine, "")+`,{"key":"k"}]}`).want(t, 403, "reason", "forbidden")
		s.by(evil, "POST", "/v1/rules/acme-other/refund", with(mine, "")).want(t, 400, "field", "receipt")
		ask(evil, "take", with(mine, "")).want(t, 400, "reason", "unknown_field", "field", "receipt")
		s.by(s.with("beta", auth.Produce), "POST", "/v1/rules/acme-hour/refund", with(mine, "")).want(t, 404)
		left(4)

		// Of many at once, and of a list that has it twice, one is done.
		var all sync.WaitGroup
		var mu sync.Mutex
		done := 0
		for range 8 {
			all.Go(func() {
				a := ask(evil, "refund", with(mine, ""))
				mu.Lock()
				defer mu.Unlock()
				if a.status == 200 {
					done++
				}
			})
		}
		all.Wait()
		if done != 1 {
			t.Errorf("%d of 8 refunds were done", done)
		}
		left(6)
		mine = take(evil, `{"key":"k","cost":2}`)
		a := ask(evil, "refund", `{"takes":[`+with(mine, "")+`,`+with(mine, "")+`]}`)
		if a.want(t, 200); strings.Count(a.text, `"allowed":true`) != 1 || strings.Count(a.text, "used already") != 1 {
			t.Errorf("a list that has it twice: %s", a.text)
		}
		left(6)

		// A list of takes has a receipt for each. A part is given back once.
		a = ask(evil, "take", `{"takes":[{"key":"k","cost":2},{"key":"k"},{"key":"k","cost":9}]}`)
		if a.want(t, 200); strings.Count(a.text, `"receipt"`) != 2 {
			t.Errorf("a list of takes: %s", a.text)
		}
		first := a.body["takes"].([]any)[0].(map[string]any)["receipt"].(string)
		ask(evil, "refund", with(first, `,"cost":1`)).want(t, 200)
		ask(evil, "refund", with(first, `,"cost":1`)).want(t, 400, "field", "receipt")
		left(4)

		// Nothing is given back that was not taken, nor of a rule that was changed since.
		shadow := func() *answer { return s.by(evil, "POST", "/v1/rules/acme-shadow/take", `{}`) }
		shadow().want(t, 200)
		if a := shadow(); a.body["shadowed"] != true || a.body["receipt"] != nil {
			t.Errorf("a take that only counts: %s", a.text)
		}
		mine = take(evil, `{"key":"k"}`)
		s.put("/v1/rules/acme-hour", `{"algorithm":"sliding_log","limit":20,"period":"1h","key":"{payload/k}"}`)
		ask(evil, "refund", with(mine, "")).want(t, 400, "field", "receipt")

		// The refund is in the record, as its caller's.
		if a := s.by(s.operator, "GET", "/v1/audit?name=acme-hour&order=oldest", ""); strings.Count(
			a.text, `"operation":"refundRule"`,
		) < 3 {
			t.Errorf("the record: %s", a.text)
		}
	})
}
