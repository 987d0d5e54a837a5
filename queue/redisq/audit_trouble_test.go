package redisq_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/internal/test/faultproxy"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/redisq"
	"github.com/penstock/penstock/queue/rules"
)

// A key of the log that is not ours, or an entry at its end, is found by every change before it writes anything.
// What cannot be recorded is neither given back nor forgotten.
func TestPlantedAuditOfTakes(t *testing.T) {
	v, s := audited(t, redisq.Options{})
	ctx := audit.WithActor(v.ctx, someone)
	if _, err := v.e.PutRule(ctx, windows(6), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := v.e.Take(ctx, "r", []rules.Take{{Key: "k", Cost: 5}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Client().Del(ctx, "ps{0}J:app:acme").Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.Client().Set(ctx, "ps{0}J:app:acme", "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	for _, op := range []rules.TakeOp{rules.TakeBack, rules.TakeAnew} {
		if _, err := v.e.Take(ctx, "r", []rules.Take{{Op: op, Key: "k", Cost: 1}}); !errors.Is(err, queue.ErrCorrupt) {
			t.Errorf("%v: %v, want corrupt", op, err)
		}
	}
	if taken, err := v.e.Take(ctx, "r", []rules.Take{{Op: rules.TakePeek, Key: "k"}}); err != nil ||
		taken[0].Remaining != taken[0].Limit-5 {
		t.Errorf("%+v, %v", taken, err)
	}
}

func TestPlantedAudit(t *testing.T) {
	log, budgets := []string{"ps{0}J"}, []string{"ps{0}J:nobody", "ps{0}J:app:acme"}
	for _, tt := range []struct {
		name string
		keys []string
		as   []any
	}{
		{"another type for the log", log, []any{"SET", "KEY", "x"}},
		{"another type for a budget", budgets, []any{"SET", "KEY", "x"}},
		{"another's entry", budgets, []any{"XADD", "KEY", "*", "a", "b"}},
		{"another's fields", budgets, []any{"XADD", "KEY", "1000-0", "text", "b"}},
	} {
		v, s := audited(t, redisq.Options{})
		for _, m := range mutations {
			dumps := map[string]string{}
			for _, key := range tt.keys {
				if dump, err := s.Client().Dump(v.ctx, key).Result(); err == nil {
					dumps[key] = dump
				}
				s.Client().Del(v.ctx, key)
				// What a mutation does first to have something to do writes no entry, so it may be done twice.
				as := slices.Clone(tt.as)
				as[1] = key
				if err := s.Client().Do(v.ctx, as...).Err(); err != nil {
					t.Fatal(err)
				}
			}
			before := contents(t, s.Client())
			if err := m.do(v, v.ctx); !errors.Is(err, queue.ErrCorrupt) {
				t.Errorf("%s, %s: %v, want corrupt", tt.name, m.what, err)
			}
			after := contents(t, s.Client())
			for k := range after {
				if strings.HasPrefix(k, "ps{0}H:") || strings.HasPrefix(k, "ps{0}P:") || k == "ps{0}I" {
					if after[k] != before[k] {
						t.Errorf("%s, %s: changed %s", tt.name, m.what, k)
					}
				}
			}
			for _, key := range tt.keys {
				s.Client().Del(v.ctx, key)
				if dump, ok := dumps[key]; ok {
					if err := s.Client().Restore(v.ctx, key, 0, dump).Err(); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := m.do(v, v.ctx); err != nil {
				t.Fatalf("%s, %s: put right: %v", tt.name, m.what, err)
			}
		}
		if all, _ := v.audit(0); len(all) != len(mutations) {
			t.Errorf("%s: %d entries, want %d", tt.name, len(all), len(mutations))
		}
	}
}

// Entries that somebody took away are missed, and changes go on.
func TestAuditGoesOnBehindAGap(t *testing.T) {
	v, s := audited(t, redisq.Options{})
	v.put("email", leaky.Unlimited, nil)
	for i := range 4 {
		v.put("email", leaky.PerSecond(int64(i)+1), nil)
	}
	s.Client().XDel(v.ctx, "ps{0}J:nobody", "4-0", "5-0")
	v.put("email", leaky.PerSecond(50), nil)
	page, err := v.e.Audit(v.ctx, audit.Request{Limit: 10})
	if err != nil || len(page.Records) != 4 || page.Newest != 6 {
		t.Fatalf("%+v, %v", page, err)
	}
	e, err := page.Records[3].Entry()
	if err != nil || e.Number != 6 || audit.Digest(e.Previous) != page.Records[2].Digest {
		t.Errorf("%s, %v", page.Records[3].Text, err)
	}
	var broken *audit.Break
	if err := new(audit.Verifier).Add(page.Records); !errors.As(err, &broken) || broken.Fault != audit.Missing {
		t.Error(err)
	}
	s.Client().XTrimMaxLen(v.ctx, "ps{0}J:nobody", 0)
	v.put("email", leaky.PerSecond(60), nil)
	page, err = v.e.Audit(v.ctx, audit.Request{Limit: 10})
	if err != nil || len(page.Records) != 1 || page.Newest != 7 {
		t.Fatalf("%+v, %v", page, err)
	}
	if err := new(audit.Verifier).Add(page.Records); !errors.As(err, &broken) || broken.Fault != audit.Unlinked {
		t.Error(err)
	}
}

// A change whose reply was lost, and that was sent again, is one entry.
func TestLostReplyIsAuditedOnce(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"single", "cluster"} {
		v, proxy := proxied(t, where == "cluster")
		for i, f := range faults {
			name := fmt.Sprint("email", i)
			f.inject(proxy, faultproxy.Script(name))
			v.put(name, leaky.Unlimited, nil)
			all, _ := v.audit(v.e.Partition(name))
			of := slices.DeleteFunc(all, func(e audit.Entry) bool { return e.Name != name })
			if len(of) != 1 {
				t.Errorf("%s, %s: %d entries of a put, want one", where, f.name, len(of))
			}
			proxy.Clear()
			f.inject(proxy, faultproxy.Script("app:"+name))
			d := document.Document{Kind: "app", Name: name, Text: []byte(`{}`)}
			revision, err := v.e.PutDocument(v.ctx, d, 0)
			if err != nil {
				t.Fatalf("%s, %s: %v", where, f.name, err)
			}
			proxy.Clear()
			f.inject(proxy, faultproxy.Script("app:"+name))
			d.Text = nil
			gone, err := v.e.PutDocument(v.ctx, d, revision)
			if err != nil || gone <= revision {
				t.Fatalf("%s, %s: deleted as %d after %d: %v", where, f.name, gone, revision, err)
			}
			proxy.Clear()
			all, _ = v.audit(0)
			of = slices.DeleteFunc(all, func(e audit.Entry) bool { return e.Of != "app" || e.Name != name })
			if len(of) != 2 || of[1].Revision != gone {
				t.Errorf("%s, %s: %d entries of a document, want two: %+v", where, f.name, len(of), of)
			}
		}
	}
}
