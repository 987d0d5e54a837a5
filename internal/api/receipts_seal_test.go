package api

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/long"
)

// A receipt gives back once, for its own caller, rule and key, what the rule still counts of the take, and no more.
func TestReceipts(t *testing.T) {
	now := time.Now()
	r := newReceipts(func() time.Time { return now })
	mine := claim{"me", "rule", "key", 1}
	type step struct {
		after time.Duration
		cost  int64
		back  int64  // 0 is refused
		says  string // then
	}
	for name, c := range map[string]struct {
		cost            int64
		interval, fresh time.Duration
		steps           []step
	}{
		"all":          {3, 0, time.Hour, []step{{0, 0, 3, ""}, {0, 0, 0, "used already"}}},
		"a part":       {3, 0, time.Hour, []step{{0, 2, 2, ""}, {0, 1, 0, "used already"}}},
		"more":         {3, 0, time.Hour, []step{{0, 4, 0, "still counts 3"}, {0, 3, 3, ""}}},
		"late":         {3, 0, time.Minute, []step{{time.Minute, 0, 0, "too old"}}},
		"very late":    {3, 0, time.Hour, []step{{receiptLife, 0, 0, "too old"}}},
		"just in time": {3, 0, time.Hour, []step{{receiptLife - 1, 0, 3, ""}}},
		// A meter of 1/s that held 2 before: its drain reaches the take after 2 s.
		"a meter": {3, time.Second, 5 * time.Second, []step{{2 * time.Second, 0, 3, ""}}},
		"a meter, later": {
			3, time.Second, 5 * time.Second, []step{{2*time.Second + 1, 3, 0, "still counts 2"}, {0, 0, 2, ""}},
		},
		"a meter at last": {3, time.Second, 5 * time.Second, []step{{4*time.Second + 1, 0, 0, "too old"}}},
	} {
		text, _ := r.issue(mine, c.cost, c.interval, c.fresh)
		for _, s := range c.steps {
			now = now.Add(s.after)
			back, _, p := r.redeem(text, mine, s.cost)
			if (p == nil) != (s.back > 0) || back != s.back && p == nil || p != nil && !strings.Contains(p.Detail, s.says) {
				t.Errorf("%s: %+v gives back %d, %+v", name, s, back, p)
			}
		}
	}
	text, number := r.issue(mine, 1, 0, time.Hour)
	for what, c := range map[string]claim{
		"caller": {"you", "rule", "key", 1}, "rule": {"me", "rulek", "ey", 1}, "key": {"me", "rule", "kex", 1},
		"revision": {"me", "rule", "key", 2}, "parts": {"mer", "ule", "key", 1},
	} {
		if _, _, p := r.redeem(text, c, 0); p == nil || !strings.Contains(p.Detail, "does not match this caller") {
			t.Errorf("another %s: %+v", what, p)
		}
	}
	raw, _ := base64.RawURLEncoding.DecodeString(text)
	for i := range raw { // no bit of it can be changed
		raw[i] ^= 1
		if _, _, p := r.redeem(base64.RawURLEncoding.EncodeToString(raw), mine, 0); p == nil {
			t.Errorf("byte %d was changed, and it is taken", i)
		}
		raw[i] ^= 1
	}
	for _, bad := range []string{"x", text + "A", text[1:], "=" + text, strings.Repeat("A", 4000)} {
		if _, _, p := r.redeem(bad, mine, 0); p == nil {
			t.Errorf("%.20s is taken", bad)
		}
	}
	if _, _, p := newReceipts(time.Now).redeem(text, mine, 0); p == nil || !strings.Contains(p.Detail, "another server") {
		t.Errorf("at another server: %+v", p)
	}
	r.mark(number, true) // as of a take that was given back already
	if _, _, p := r.redeem(text, mine, 0); p == nil {
		t.Error("one that is marked as used is taken")
	}
	r.mark(number, false)
	if _, _, p := r.redeem(text, mine, 0); p != nil {
		t.Errorf("one that is good again: %+v", p)
	}
}

// Of very many receipts the latest are known. Older ones are refused, rather than taken twice.
func TestReceiptsAreBounded(t *testing.T) {
	r, mine := newReceipts(time.Now), claim{"me", "rule", "key", 1}
	first, _ := r.issue(mine, 1, 0, time.Hour)
	second, _ := r.issue(mine, 1, 0, time.Hour)
	if _, _, p := r.redeem(first, mine, 0); p != nil {
		t.Fatal(p)
	}
	if !long.Form() { // the numbers between were never used
		r.next = maxReceipts - 1000
	}
	for r.next < maxReceipts+1 {
		r.issue(mine, 1, 0, time.Hour)
	}
	if _, _, p := r.redeem(first, mine, 0); p == nil || !strings.Contains(p.Detail, "too old") {
		t.Errorf("one that was used is taken again: %+v", p)
	}
	if _, _, p := r.redeem(second, mine, 0); p != nil {
		t.Errorf("the oldest that is known: %+v", p)
	}
	if _, _, p := r.redeem(second, mine, 0); p == nil {
		t.Error("the oldest that is known is taken twice")
	}
}
