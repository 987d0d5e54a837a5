package api

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// A sketch never counts too little, knows how much it may count too much, and holds each key that came often enough.
func TestSketch(t *testing.T) {
	for _, keys := range []int{1, sketchKeys, 10 * sketchKeys, 100_000} {
		t.Run(fmt.Sprint(keys), func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, uint64(keys)))
			zipf := rand.NewZipf(random, 1.2, 1, uint64(keys-1)+1)
			var s sketch
			exact := map[string]int64{}
			for range 50_000 {
				key := fmt.Sprint(zipf.Uint64())
				s.add(key)
				exact[key]++
			}
			if s.n != 50_000 || len(s.keys) > sketchKeys || len(s.at) != len(s.keys) {
				t.Fatalf("%d counted, %d keys, %d known", s.n, len(s.keys), len(s.at))
			}
			for i, k := range s.keys {
				if n := exact[k.key]; s.at[k.key] != i || k.count < n || k.count-k.error > n || k.error > s.n/sketchKeys {
					t.Errorf("%s came %d times, and has %d with an error of %d", k.key, n, k.count, k.error)
				}
			}
			for key, n := range exact {
				if _, held := s.at[key]; !held && n > s.n/sketchKeys {
					t.Errorf("%s came %d times of %d, and is not held", key, n, s.n)
				}
			}
			if top := s.top(maxTop); top[0].key != "0" && keys > 1 {
				t.Errorf("the first is %+v", top[0])
			}
		})
	}
}

// What is told is of the hour under way, or of the one before while that has only begun.
func TestTopWindows(t *testing.T) {
	begin := time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC)
	now := begin
	tops := &tops{now: func() time.Time { return now }}
	count := func(key string) { tops.find("a").count(now, key, false) }
	count("first")
	for _, step := range []struct {
		at   time.Duration
		key  string
		want string
	}{
		{59 * time.Minute, "first", "first 2 from 0s"},
		{61 * time.Minute, "second", "first 2 from 0s until 1h1m0s"},
		{67 * time.Minute, "second", "second 2 from 1h1m0s"},
		{10 * time.Hour, "third", "third 1 from 10h0m0s"},
	} {
		now = begin.Add(step.at)
		count(step.key)
		v := tops.shown("a", "", 0)
		got := fmt.Sprintf("%s %d from %v", v.Refused.Keys[0].Key, v.Refused.Count, v.Since.Sub(begin))
		if v.Until != nil {
			got += fmt.Sprintf(" until %v", v.Until.Sub(begin))
		}
		if got != step.want || v.Asked.Count != v.Refused.Count {
			t.Errorf("after %v: %s, want %s", step.at, got, step.want)
		}
	}
	now = begin.Add(11*time.Hour + time.Minute)
	if v := tops.shown("a", "", 0); v.Since == nil || v.Until == nil || v.Until.Sub(begin) != 11*time.Hour {
		t.Errorf("an hour after it was last asked: %+v", v)
	}
	now = begin.Add(12 * time.Hour)
	if v := tops.shown("a", "", 0); v.Since != nil || v.Asked.Count != 0 {
		t.Errorf("two hours after it was last asked: %+v", v)
	}
	count("a")
	for n := range 2 * maxTopRules {
		if r := tops.find(fmt.Sprint(n)); r != nil {
			r.count(now, "k", true)
		}
	}
	if len(tops.of) != maxTopRules || !tops.shown("one too many", "", 0).Uncounted || tops.shown("a", "", 0).Uncounted {
		t.Errorf("%d rules are counted", len(tops.of))
	}
	now = now.Add(30 * time.Minute)
	count("a")
	now = now.Add(31 * time.Minute)
	if tops.find("one too many") == nil || len(tops.of) != 2 {
		t.Errorf("after an hour in which one was asked %d are counted", len(tops.of))
	}
	tops.forget("a")
	if v := tops.shown("a", "", 0); v.Since != nil {
		t.Errorf("of a rule that was deleted: %+v", v)
	}
}
