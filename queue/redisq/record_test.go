package redisq_test

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// An entry of the record of changes that is not ours is found before anything is written.
func TestPlantedChange(t *testing.T) {
	for name, change := range map[string]func(v *env) error{
		"cancel": func(v *env) error { _, err := v.e.Cancel(v.ctx, "email", "job-0001"); return err },
		"delete": func(v *env) error { return v.e.Delete(v.ctx, "email", queue.AnyRevision, true) },
		"pause":  func(v *env) error { return v.e.Pause(v.ctx, "email", queue.Pause{}) },
	} {
		for _, entry := range []string{"short", "", strings.Repeat("\x00", 27)} {
			for _, push := range []string{"LPUSH", "RPUSH"} {
				v, s, _ := manual(t)
				v.put("email", leaky.Unlimited, nil)
				v.append(job("email", 1))
				if err := s.Client().Do(v.ctx, push, "ps{0}H:queue:email", entry).Err(); err != nil {
					t.Fatal(err)
				}
				before := contents(t, s.Client())
				if err := change(v); err == nil {
					t.Errorf("%s, %s %q: no error", name, push, entry)
				}
				after := contents(t, s.Client())
				for k := range before {
					if k != "ps{0}" && after[k] != before[k] || len(after) != len(before) {
						t.Errorf("%s, %s %q: changed %s from %q to %q", name, push, entry, k, before[k], after[k])
					}
				}
			}
		}
	}
}

// Nor does an entry that has a head and cannot be read keep anything from being done.
func TestUnreadableChange(t *testing.T) {
	v, s, _ := manual(t)
	v.put("email", leaky.Unlimited, nil)
	v.append(job("email", 1))
	head := string(binary.BigEndian.AppendUint64(make([]byte, 20), uint64(1_700_000_000_000_000))) // of this minute
	for _, text := range []string{"\xc1", "\x01", "\x90"} {
		if err := s.Client().LPush(v.ctx, "ps{0}H:queue:email", head+text).Err(); err != nil {
			t.Fatal(err)
		}
		v.append(job("email", 2))
		if state, err := v.e.Cancel(v.ctx, "email", "job-0002"); err != nil || state != queue.Cancelled {
			t.Errorf("%q: cancelled as %v, %v", text, state, err)
		}
	}
	if err := v.e.Delete(v.ctx, "email", queue.AnyRevision, true); err != nil {
		t.Error(err)
	}
}

// A store that keeps changes for a time that is no whole milliseconds deletes queues as any other.
func TestDeleteWhereChangesAreKeptForFractions(t *testing.T) {
	v, s, _ := manual(t)
	v.put("email", leaky.Unlimited, nil)
	if err := s.Client().HSet(v.ctx, "ps{0}", "keepchanges", 3_600_000_500).Err(); err != nil {
		t.Fatal(err)
	}
	if err := v.e.Delete(v.ctx, "email", queue.AnyRevision, true); err != nil {
		t.Error(err)
	}
}

// What a receiver said until an instant which cannot be is taken for not said: it does not keep a queue from stopping.
func TestPlantedThrottleStop(t *testing.T) {
	v, s, at := manual(t)
	v.put("email", leaky.Unlimited, nil)
	v.append(job("email", 1))
	const script = `return redis.call('HSET', KEYS[1], 'said', cmsgpack.pack({ 0, 0, 0, 0, 0, 0, '', '', 1, ` +
		`tonumber(ARGV[1]) }))`
	if err := s.Client().Eval(v.ctx, script, []string{"ps{0}q1"},
		int64(*at)+48*time.Hour.Microseconds()).Err(); err != nil {
		t.Fatal(err)
	}
	j := v.reserve("email").Jobs[0]
	lease := queue.Lease{Queue: "email", ID: j.ID, Fence: j.Fence}
	got := v.settle(queue.Settlement{Lease: lease, Verdict: queue.Throttle, Untold: true})
	if got[0].Effect.Stopped < time.Second {
		t.Errorf("stopped for %v, want a second or more", got[0].Effect.Stopped)
	}
}

// Nor does one that somebody broke behind others: it goes when its turn comes.
func TestBrokenChangeAmongOthers(t *testing.T) {
	v, s, at := manual(t)
	v.put("email", leaky.Unlimited, nil)
	const key = "ps{0}H:queue:email"
	for range 3 {
		if err := v.e.Pause(v.ctx, "email", queue.Pause{Reason: "once"}); err != nil {
			t.Fatal(err)
		}
		if err := v.e.Resume(v.ctx, "email"); err != nil {
			t.Fatal(err)
		}
	}
	n := s.Client().LLen(v.ctx, key).Val()
	if n < 5 {
		t.Fatalf("%d entries", n)
	}
	if err := s.Client().LSet(v.ctx, key, n-2, "short").Err(); err != nil {
		t.Fatal(err)
	}
	*at = at.Add(500 * 24 * time.Hour) // all of them go
	if err := v.e.Pause(v.ctx, "email", queue.Pause{}); err != nil {
		t.Error(err)
	}
	if left := s.Client().LLen(v.ctx, key).Val(); left != 1 {
		t.Errorf("%d entries are left, want the last", left)
	}
}
