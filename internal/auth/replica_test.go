package auth

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/queue"
)

func TestStoreAway(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(*memory, bool)
	}{
		{"refuses", func(m *memory, away bool) {
			m.set(func() { m.away = nil })
			if away {
				m.set(func() { m.away = queue.ErrUnavailable })
			}
		}},
		{"hangs", func(m *memory, away bool) { m.set(func() { m.hangs = away }) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, newMemory())
				secret, _ := r.token("", Grant{View, ""})
				r.as(secret)
				c.set(r.store, true)
				time.Sleep(time.Minute)
				stranger, _ := NewToken()
				r.as(secret)
				began := time.Now()
				r.refused(stranger, Unavailable)
				if took := time.Since(began); took > refreshWait {
					t.Errorf("a stranger waited for %v", took)
				}
				time.Sleep(Grace - 2*time.Minute)
				r.as(secret)
				if err := r.Ready(); err != nil {
					t.Error(err)
				}
				time.Sleep(2 * time.Minute)
				r.refused(secret, Unavailable)
				if codeOf(r.Ready()) != Unavailable {
					t.Error("it is ready")
				}
				c.set(r.store, false)
				time.Sleep(2*pollTimeout + pollEvery)
				r.as(secret)
				r.refused(stranger, Unknown)
				if n := strings.Count(r.log.String(), "cannot be read"); n != 1 {
					t.Errorf("said %d times:\n%s", n, r.log)
				}
				r.stop()
			})
		})
	}
}

func TestNobodyIsKnownBeforeTheStoreWasRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		first := newRig(t, store)
		secret, _ := first.token("", Grant{View, ""})
		store.set(func() { store.hangs = true })
		r := newRig(t, store)
		synctest.Wait()
		r.refused(secret, Unavailable)
		if codeOf(r.Ready()) != Unavailable {
			t.Error("it is ready")
		}
		store.set(func() { store.hangs = false })
		time.Sleep(pollTimeout + pollEvery)
		r.as(secret)
		first.stop()
		r.stop()
	})
}

func TestRestartedStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newMemory())
		r.app("acme", "acme-*")
		early, _ := r.token("acme", Grant{View, ""})
		kept, revision := r.store.copyOf(), r.store.revision
		lost, _ := r.token("acme", Grant{View, ""})
		r.as(early)
		r.as(lost)
		r.store.set(func() { r.store.all, r.store.revision, r.store.run = kept, revision, "2" })
		time.Sleep(2 * time.Second)
		r.as(early)
		r.refused(lost, Unknown)

		// One that was restarted once more, while it was read, in pages of one.
		r.store.set(func() { r.store.page, r.store.run = 1, "3" })
		time.Sleep(2 * time.Second)
		r.as(early)
		r.stop()
	})
}

func TestForcedRefreshes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		here, there := newRig(t, store), newRig(t, store)
		synctest.Wait()
		began, polls := time.Now(), store.polls.Load()
		var group sync.WaitGroup
		for n := range 5000 {
			time.Sleep(time.Millisecond)
			if n == 2500 {
				secret, _ := here.token("", Grant{View, ""})
				group.Go(func() { there.as(secret) })
			}
			group.Go(func() {
				stranger, _ := NewToken()
				there.refused(stranger, Unknown)
			})
		}
		group.Wait()
		took := time.Since(began)
		most := int64(took/refreshGap) + 2*int64(took/pollEvery) + 2
		if n := store.polls.Load() - polls; n > most {
			t.Errorf("%d polls in %v, want at most %d", n, took, most)
		}
		if n := there.Requests(Unknown); n != 5000 {
			t.Errorf("%d counted", n)
		}
		here.stop()
		there.stop()
		if n := strings.Count(there.log.String(), "were refused"); n != 1 {
			t.Errorf("%d lines:\n%s", n, there.log)
		}
		if !strings.Contains(there.log.String(), "count=5000") {
			t.Errorf("the count is missing:\n%s", there.log)
		}
	})
}

func TestDocumentThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newMemory())
		secret, made := r.token("", Grant{View, ""})
		r.as(secret)
		for _, text := range []string{`{"digest":"abc","grants":[]}`, `{"digest":7}`, `"x"`, `{}`} {
			r.store.set(func() {
				r.store.revision++
				r.store.all["token/"+made.ID] = document.Document{
					Kind: KindToken, Name: made.ID, Revision: r.store.revision, Text: []byte(text),
				}
			})
			time.Sleep(2 * pollEvery)
			r.refused(secret, Revoked)
		}
		r.silent("abc")
		r.stop()
	})
}
