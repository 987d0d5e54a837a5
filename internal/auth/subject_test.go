package auth

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/queue"
)

// A subject that expires lets nobody in from then on, ends what is open within 5 s, and is deleted a while later.
func TestSubjectsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newMemory())
		ctx := t.Context()
		r.app("acme", "acme-*")
		const name = "unix:4242"
		put := func(expires time.Time) error {
			s := Subject{Name: name, App: "acme", Grants: []Grant{{View, ""}}, Expires: expires}
			_, err := r.PutSubject(ctx, r.op, s, queue.AnyRevision)
			return err
		}
		if err := put(time.Now().Add(-time.Second)); fieldOf(err) != "expires" {
			t.Errorf("one that has ended: %v", err)
		}
		if err := put(time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		ask := func() (*Identity, error) {
			request := with("")
			request.Header.Del("Authorization")
			return r.Identify(request.WithContext(peerContext(ctx, 4242)))
		}
		id, err := ask()
		if err != nil {
			t.Fatal(err)
		}
		watched, done := r.Watch(ctx, id)
		defer done()
		// It may also end sooner than was said when the stream was opened.
		if err := put(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(59 * time.Second)
		if watched.Err() != nil {
			t.Error("it ended before its time")
		}
		time.Sleep(6 * time.Second)
		var why *Refusal
		if !errors.As(context.Cause(watched), &why) || why.Code != Expired {
			t.Errorf("what was open: %v", context.Cause(watched))
		}
		if _, err := ask(); codeOf(err) != Expired {
			t.Errorf("who asks anew: %v", err)
		}
		r.stop() // a month of polls is the work of minutes
		time.Sleep(keepExpired - 3*tidyEvery)
		r = newRig(t, r.store)
		time.Sleep(2 * tidyEvery)
		if _, err := r.Subject(ctx, r.op, name); err != nil {
			t.Errorf("it is shown for a while: %v", err)
		}
		time.Sleep(3 * tidyEvery)
		if _, err := r.Subject(ctx, r.op, name); !errors.Is(err, document.ErrUnknown) {
			t.Errorf("it stays for ever: %v", err)
		}
		r.stop()
	})
}

// Who comes by a subject has what he proved for as long as that and the subject last; what he makes ends with it.
func TestSubjectsEndWithWhoMakesThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newMemory())
		ends := now().Add(time.Hour)
		short := Operator("oidc:x#boss")
		short.expires = ends
		made := func(expires time.Time) (Subject, error) {
			return r.PutSubject(t.Context(), short, Subject{Name: "cert:x", Grants: []Grant{{View, ""}}, Expires: expires},
				queue.AnyRevision)
		}
		if s, err := made(time.Time{}); err != nil || !s.Expires.Equal(ends) {
			t.Errorf("%v, %v", s.Expires, err)
		}
		if s, err := made(ends.Add(-time.Minute)); err != nil || !s.Expires.Equal(ends.Add(-time.Minute)) {
			t.Errorf("%v, %v", s.Expires, err)
		}
		if _, err := made(ends.Add(time.Minute)); fieldOf(err) != "expires" {
			t.Errorf("later than himself: %v", err)
		}
		r.stop()
	})
}

// An app had a name from when it was made, or given the prefix that the name is of.
func TestHadAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		began := now()
		day := 24 * time.Hour
		put := func(prefixes ...string) *App {
			time.Sleep(day) // without a rig, which would poll
			r := newRig(t, store)
			defer r.stop()
			synctest.Wait()
			app, err := r.PutApp(t.Context(), r.op, App{Name: "acme", Prefixes: prefixes}, queue.AnyRevision)
			if err != nil {
				t.Fatal(err)
			}
			return &app
		}
		put("acme-*", "old-*")             // day 1
		put("acme-*", "old-*", "gamma-*")  // day 2
		put("acme-x*", "gamma-*", "delta") // day 3
		app := put("acme-*", "gamma-*", "delta", "delta.x")
		for _, c := range []struct {
			name string
			day  int
			had  bool
		}{
			{"acme-x1", 3, false}, // it is told of what it lacked by what it has now, and of no less
			{"acme-y", 3, false},  // it was taken away
			{"acme-y", 4, true},
			{"gamma-1", 1, false},
			{"gamma-1", 2, true},
			{"delta", 2, false},
			{"delta.x", 3, true},
		} {
			if had := app.HadAt(c.name, began.Add(time.Duration(c.day)*day+time.Minute)); had != c.had {
				t.Errorf("%s on day %d: %v", c.name, c.day, had)
			}
		}
	})
}
