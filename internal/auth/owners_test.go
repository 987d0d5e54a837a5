package auth

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

// A drainer hears within seconds whose queues share its handlers, and goes by what it knew while the store is away.
func TestOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		r := newRig(t, store)
		r.app("beta", "beta-*")
		put := func(name string, share float64, prefixes ...string) {
			t.Helper()
			app := App{Name: name, Prefixes: prefixes, Limits: Limits{Handlers: share}}
			if _, err := r.PutApp(t.Context(), r.op, app, queue.AnyRevision); err != nil {
				t.Fatal(err)
			}
		}
		put("acme", .25, "acme-*", "ses.acme", "exact")
		s := NewOwners(store, nil)
		if app, share := s.Share("acme-x"); app != "" || share != 0 {
			t.Errorf("before it was read: %s %v", app, share)
		}
		if app, err := s.App("acme-x"); err == nil {
			t.Errorf("before it was read: %s", app)
		}
		owned := func(name, want string) {
			t.Helper()
			if app, err := s.App(name); app != want || err != nil {
				t.Errorf("%s: %q, %v; want %q", name, app, err, want)
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		end := make(chan error, 1)
		go func() { end <- s.Run(ctx) }()
		s.Wait(t.Context())
		check := func(name, app string, share float64) {
			t.Helper()
			if a, n := s.Share(name); a != app || n != share {
				t.Errorf("%s: %q %v, want %q %v", name, a, n, app, share)
			}
		}
		for _, name := range []string{"acme-", "acme-x", "acme-x.y", "ses.acme", "exact", "exact.child"} {
			check(name, "acme", .25)
		}
		for _, name := range []string{"", "acme", "ses", "ses.acme2", "ses.other", "exact2", "beta-x", "x"} {
			check(name, "", 0)
		}
		owned("acme-x", "acme")
		owned("beta-x", "beta") // which has no share
		owned("beta", rules.OperatorApp)
		put("beta", 1, "beta-*")
		put("acme", .5, "acme-*")
		time.Sleep(5 * time.Second)
		check("beta-x", "beta", 1)
		check("acme-x", "acme", .5)
		check("exact", "", 0)
		store.set(func() { store.away = queue.ErrUnavailable })
		time.Sleep(time.Hour)
		check("acme-x", "acme", .5)
		store.set(func() { store.away = nil })
		if _, err := r.DeleteApp(t.Context(), r.op, "acme", queue.AnyRevision); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		check("acme-x", "", 0)
		check("beta-x", "beta", 1)
		owned("acme-x", rules.OperatorApp)
		stop()
		if err := <-end; err != nil {
			t.Error(err)
		}
		r.stop()
	})
}

// A drainer that cannot ask begins all the same.
func TestOwnersOfAStoreThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		store.away = errors.New("no permission")
		log := &logged{}
		s := NewOwners(store, slog.New(slog.NewTextHandler(log, nil)))
		ctx, stop := context.WithCancel(t.Context())
		end := make(chan error, 1)
		go func() { end <- s.Run(ctx) }()
		began := time.Now()
		s.Wait(t.Context())
		if took := time.Since(began); took > pollTimeout {
			t.Errorf("waited %v", took)
		}
		if app, _ := s.Share("acme-x"); app != "" {
			t.Error(app)
		}
		stop()
		if err := <-end; err != nil || log.String() == "" {
			t.Errorf("%v; logged %q", err, log)
		}
	})
}
