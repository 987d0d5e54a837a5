package auth

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/queue"
)

func TestTokenIsKnownEverywhereAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		here, there := newRig(t, store), newRig(t, store)
		synctest.Wait()
		here.app("acme", "acme-*")
		secret, made := here.token("acme", Grant{Produce, ""})
		began := time.Now()
		for _, r := range []*rig{here, there} {
			id := r.as(secret)
			if id.Actor != (queue.Actor{Name: "token:" + made.ID, App: "acme", Token: made.ID}) {
				t.Errorf("%+v", id.Actor)
			}
			if !id.Can(Produce, "acme-mail") || id.Can(View, "acme-mail") || id.Can(Produce, "beta-mail") {
				t.Errorf("%v", id.Grants())
			}
		}
		if took := time.Since(began); took > 2*refreshGap {
			t.Errorf("it took %v", took)
		}
		here.stop()
		there.stop()
	})
}

func TestRevocationIsKnownWithin5s(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		here, there := newRig(t, store), newRig(t, store)
		here.app("acme", "acme-*")
		here.app("beta", "beta-*")
		deleted, one := here.token("acme", Grant{Produce, ""})
		ofApp, _ := here.token("beta", Grant{Produce, ""})
		operators, _ := here.token("", Grant{Admin, ""})
		for _, secret := range []string{deleted, ofApp, operators} {
			there.as(secret)
		}
		if _, err := here.DeleteToken(t.Context(), here.op, one.ID, queue.AnyRevision); err != nil {
			t.Fatal(err)
		}
		if _, err := here.DeleteApp(t.Context(), here.op, "beta", queue.AnyRevision); err != nil {
			t.Fatal(err)
		}
		here.refused(deleted, Revoked)
		here.refused(ofApp, Revoked)
		time.Sleep(2 * time.Second)
		there.refused(deleted, Revoked)
		there.refused(ofApp, Revoked)
		there.as(operators)

		// A later app of the name has nothing to do with it.
		here.app("beta", "beta-*")
		here.refused(ofApp, Revoked)
		there.as(operators)
		time.Sleep(2 * time.Second)
		there.refused(ofApp, Revoked)

		// And whoever has never known the token knows no more than that there is none.
		late := newRig(t, store)
		synctest.Wait()
		late.refused(deleted, Unknown)

		here.stop()
		there.stop()
		late.stop()
	})
}

func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newMemory())
		secret, made, err := r.CreateToken(t.Context(), r.op, Token{
			Grants: []Grant{{View, ""}}, Expires: time.Now().Add(time.Hour),
		})
		if err != nil {
			t.Fatal(err)
		}
		r.as(secret)
		time.Sleep(time.Hour - time.Millisecond)
		r.as(secret)
		time.Sleep(time.Millisecond)
		r.refused(secret, Expired)
		r.refused(secret[:secretAt]+strings.Repeat("0", secretLength)+secret[secretAt+secretLength:], Mistyped)
		if _, _, err := r.RotateToken(t.Context(), r.op, made.ID, time.Hour); fieldOf(err) != "token" {
			t.Errorf("rotated: %v", err)
		}
		if _, _, err := r.CreateToken(t.Context(), r.op, Token{
			Grants: []Grant{{View, ""}}, Expires: time.Now(),
		}); fieldOf(err) != "expires" {
			t.Errorf("made: %v", err)
		}
		r.stop()
	})
}

// TestGuessedSecret: who has the id of a token and not its secret is told what he is told of one that there is not.
func TestGuessedSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newMemory())
		_, made := r.token("", Grant{Admin, ""})
		body := TokenPrefix + made.ID + "_" + strings.Repeat("a", secretLength)
		check := checksum([]byte(body))
		_, guessed := r.Identify(with(body + string(check[:])))
		stranger, _ := NewToken()
		_, unknown := r.Identify(with(stranger))
		if codeOf(guessed) != Unknown || guessed.Error() != unknown.Error() {
			t.Errorf("%v, %v", guessed, unknown)
		}
		if _, err := r.DeleteToken(t.Context(), r.op, made.ID, made.Revision); err != nil {
			t.Fatal(err)
		}
		r.refused(body+string(check[:]), Unknown)
		r.stop()
	})
}

// TestStoreAway: known tokens hold for Grace, unknown ones are told that nobody can tell.
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

// TestRestartedStore: a store that comes back without its last writes has all of it read again.
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

// TestForcedRefreshes: however many unknown tokens come, the store is asked at most ten times a second, and a
// token that was just made elsewhere is known all the same.
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

func TestWrongTokensAreLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newMemory())
		synctest.Wait()
		secret, _ := NewToken()
		for range 180 { // three minutes
			for n := range 3 {
				request := with(secret[:len(secret)-1])
				request.RemoteAddr = fmt.Sprintf("192.0.2.%d:%d", n, 1000+n)
				_, _ = r.Identify(request)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(time.Second)
		if n := strings.Count(r.log.String(), "were refused"); n != 9 {
			t.Errorf("%d lines:\n%s", n, r.log)
		}
		before := len(r.log.String())
		for n := range 20 * mostAddresses {
			request := with(secret[:len(secret)-1])
			request.RemoteAddr = fmt.Sprintf("[2001:db8::%x]:80", n+1)
			_, _ = r.Identify(request)
		}
		if n := len(r.wrong.from); n > mostAddresses {
			t.Errorf("%d addresses are kept", n)
		}
		time.Sleep(time.Minute)
		if n := strings.Count(r.log.String()[before:], "\n"); n != mostLines+1 {
			t.Errorf("%d lines", n)
		}
		r.silent(secret[secretAt : len(secret)-1])
		r.stop()
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
				r.store.all["token/"+made.ID] = queue.Document{
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

func TestWatch(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(t *testing.T, r *rig, made Token, app App)
		ends   Code // empty: it does not
	}{
		{"revoked", func(t *testing.T, r *rig, made Token, _ App) {
			if _, err := r.DeleteToken(t.Context(), r.op, made.ID, made.Revision); err != nil {
				t.Error(err)
			}
		}, Revoked},
		{"app deleted", func(t *testing.T, r *rig, _ Token, app App) {
			if _, err := r.DeleteApp(t.Context(), r.op, app.Name, app.Revision); err != nil {
				t.Error(err)
			}
		}, Revoked},
		{"prefix taken away", func(t *testing.T, r *rig, _ Token, app App) {
			app.Prefixes = []string{"acme-mail*"}
			if _, err := r.PutApp(t.Context(), r.op, app, app.Revision); err != nil {
				t.Error(err)
			}
		}, Revoked},
		{"prefix added", func(t *testing.T, r *rig, _ Token, app App) {
			app.Prefixes = []string{"acme-*", "ses.acme"}
			if _, err := r.PutApp(t.Context(), r.op, app, app.Revision); err != nil {
				t.Error(err)
			}
		}, ""},
		{"role taken away", func(t *testing.T, r *rig, made Token, _ App) {
			made.Grants = []Grant{{View, ""}}
			if _, err := r.put(t.Context(), KindToken, made.ID, &made, made.Revision); err != nil {
				t.Error(err)
			}
		}, Revoked},
		{"narrowed", func(t *testing.T, r *rig, made Token, _ App) {
			made.Grants = []Grant{{View, ""}, {Consume, "acme-mail"}}
			if _, err := r.put(t.Context(), KindToken, made.ID, &made, made.Revision); err != nil {
				t.Error(err)
			}
		}, Revoked},
		{"role added", func(t *testing.T, r *rig, made Token, _ App) {
			made.Grants = []Grant{{Admin, ""}}
			if _, err := r.put(t.Context(), KindToken, made.ID, &made, made.Revision); err != nil {
				t.Error(err)
			}
		}, ""},
		{"rotated", func(t *testing.T, r *rig, made Token, _ App) {
			if _, _, err := r.RotateToken(t.Context(), r.op, made.ID, 0); err != nil {
				t.Error(err)
			}
		}, Expired},
		{"nothing", func(*testing.T, *rig, Token, App) {}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newMemory()
				here, there := newRig(t, store), newRig(t, store)
				app := here.app("acme", "acme-*")
				secret, made := here.token("acme", Grant{View, ""}, Grant{Consume, ""})
				ctx, cancel := there.Watch(t.Context(), there.as(secret))
				defer cancel()
				c.change(t, here, made, app)
				began := time.Now()
				select {
				case <-ctx.Done():
					if took := time.Since(began); took > 5*time.Second {
						t.Errorf("it took %v", took)
					}
				case <-time.After(time.Minute):
				}
				if got := codeOf(context.Cause(ctx)); got != c.ends {
					t.Errorf("%v", context.Cause(ctx))
				}
				cancel()
				if n := len(there.watchers.all); n != 0 {
					t.Errorf("%d are still watched", n)
				}
				here.stop()
				there.stop()
			})
		})
	}
}

func TestWatchEndsWithTheTokenAndWithGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newMemory())
		short, _, err := r.CreateToken(t.Context(), r.op, Token{
			Grants: []Grant{{View, ""}}, Expires: time.Now().Add(time.Minute),
		})
		if err != nil {
			t.Fatal(err)
		}
		long, _ := r.token("", Grant{View, ""})
		one, cancel := r.Watch(t.Context(), r.as(short))
		defer cancel()
		other, cancel := r.Watch(t.Context(), r.as(long))
		defer cancel()
		machine, cancel := r.Watch(t.Context(), Operator("unix:0"))
		defer cancel()
		time.Sleep(time.Minute + 2*watchEvery)
		if codeOf(context.Cause(one)) != Expired || other.Err() != nil {
			t.Errorf("%v, %v", context.Cause(one), other.Err())
		}
		r.store.set(func() { r.store.away = errors.New("gone") })
		time.Sleep(Grace + 2*watchEvery)
		if codeOf(context.Cause(other)) != Unavailable || machine.Err() != nil {
			t.Errorf("%v, %v", context.Cause(other), machine.Err())
		}
		late, cancel := r.Watch(t.Context(), &Identity{Actor: queue.Actor{Token: "x"}})
		defer cancel()
		if codeOf(context.Cause(late)) != Unavailable {
			t.Errorf("%v", context.Cause(late))
		}
		r.stop()
	})
}
