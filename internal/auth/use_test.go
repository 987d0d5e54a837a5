package auth

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestLastUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		here, there := newRig(t, store), newRig(t, store)
		synctest.Wait()
		ctx := t.Context()
		secret, made := here.token("", Grant{View, ""})
		_, idle := here.token("", Grant{View, ""})
		puts := store.puts.Load()
		day := func(r *rig, id string) string {
			t.Helper()
			one, err := r.Token(ctx, r.op, id)
			if err != nil {
				t.Fatal(err)
			}
			all, err := r.Tokens(ctx, r.op, "", "", 10)
			n := slices.IndexFunc(all, func(t Token) bool { return t.ID == id })
			if err != nil || n < 0 || !all[n].LastUsed.Equal(one.LastUsed) {
				t.Fatalf("%v, %v", all, err)
			}
			if one.LastUsed.IsZero() {
				return "never"
			}
			return one.LastUsed.Format(time.DateOnly)
		}
		if got := day(here, made.ID); got != "never" {
			t.Error(got)
		}
		for range 100 {
			here.as(secret)
			there.as(secret)
		}
		today := time.Now().UTC().Format(time.DateOnly)
		if got := day(here, made.ID); got != today {
			t.Error(got)
		}
		time.Sleep(tidyEvery + 2*time.Second)
		late := newRig(t, store)
		synctest.Wait()
		if got := day(late, made.ID); got != today {
			t.Error(got)
		}
		if got := day(late, idle.ID); got != "never" {
			t.Error(got)
		}
		for range 20 {
			time.Sleep(time.Hour)
			here.as(secret)
			late.as(secret)
		}
		if n := store.puts.Load() - puts; n > 4 {
			t.Errorf("%d writes in a day", n)
		}
		time.Sleep(4 * time.Hour)
		tomorrow := time.Now().UTC().Format(time.DateOnly)
		there.as(secret)
		there.stop() // what is left is written
		if got := day(late, made.ID); got != tomorrow {
			t.Errorf("%s, want %s", got, tomorrow)
		}
		here.stop()
		late.stop()
	})
}

func TestUsesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newMemory())
		synctest.Wait() // the first poll puts a view of its own in place
		days := map[string]int32{}
		r.replica.mu.Lock()
		for n := range 3 * mostUses {
			id := fmt.Sprintf("%012d", n)
			days[id] = 20000 + int32(n%3)
			r.replica.view.tokens[id] = &heldToken{}
		}
		r.replica.mu.Unlock()
		r.forgetUses(days)
		if len(days) != mostUses {
			t.Errorf("%d are kept", len(days))
		}
		for id, day := range days {
			if day != 20002 {
				t.Fatalf("%s of day %d is kept", id, day)
			}
		}
		if err := r.writeShard(t.Context(), 0, days); err != nil {
			t.Error(err)
		}
		r.stop()
	})
}
