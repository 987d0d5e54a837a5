package auth

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/faultproxy"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/redisq"
)

// TestOnRedis: two ingresses on a Redis, of which one is cut off for a while.
func TestOnRedis(t *testing.T) {
	server := redistest.New(t, redistest.Options{})
	proxy, err := faultproxy.Start(t.Context(), server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = proxy.Close() }()
	behind := redis.NewClient(&redis.Options{
		Addr: proxy.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true, DisableIdentity: true,
	})
	defer func() { _ = behind.Close() }()
	var log audit.Log
	open := func(c redis.UniversalClient) *rig {
		e, err := redisq.OpenClient(t.Context(), c, redisq.Options{Init: true, Patience: redistest.Patience, Mask: Mask})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		log = e
		return newRigOn(t, e)
	}
	here, there := open(server.Client()), open(behind)
	defer here.stop()
	defer there.stop()

	here.app("acme", "acme-*")
	secret, made := here.token("acme", Grant{Produce, ""})
	began := time.Now()
	there.as(secret)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("a new token was known after %v", took)
	}
	if app, err := there.App(t.Context(), there.op, "acme"); err != nil || app.Name != "acme" {
		t.Errorf("%+v, %v", app, err)
	}
	ctx, cancel := there.Watch(t.Context(), there.as(secret))
	defer cancel()

	// Cut off, what it knows holds, and of the rest it cannot tell. What is revoked meanwhile it learns when it can.
	proxy.Refuse()
	proxy.Cut()
	stranger, other := here.token("acme", Grant{View, ""})
	there.as(secret)
	there.refused(stranger, Unavailable)
	if _, err := here.DeleteToken(t.Context(), here.op, made.ID, made.Revision); err != nil {
		t.Fatal(err)
	}
	here.refused(secret, Revoked)
	there.as(secret)
	proxy.Admit()
	await.Until(t, "the store is back", func() bool {
		_, err := there.Identify(with(stranger))
		return err == nil
	})
	there.refused(secret, Revoked)
	await.Until(t, "what was open has ended", func() bool { return ctx.Err() != nil })
	if codeOf(context.Cause(ctx)) != Revoked {
		t.Errorf("%v", context.Cause(ctx))
	}

	// Revoked while the store is there, it takes 5 s at most.
	ctx, cancel = there.Watch(t.Context(), there.as(stranger))
	defer cancel()
	if _, err := here.DeleteToken(t.Context(), here.op, other.ID, other.Revision); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ctx.Done():
	case <-time.After(5 * time.Second):
		t.Error("what was open went on for 5 s")
	}
	there.refused(stranger, Revoked)

	_, err = here.DeleteToken(t.Context(), here.op, other.ID, queue.AnyRevision)
	if !errors.Is(err, document.ErrUnknown) {
		t.Errorf("revoked again: %v", err)
	}
	_, err = there.PutApp(t.Context(), there.op, App{Name: "acme", Prefixes: []string{"acme-*"}, Note: "x"}, 0)
	if !errors.Is(err, queue.ErrRevision) {
		t.Errorf("an app that there is was made: %v", err)
	}

	// What the audit log shows of tokens proves nothing.
	page, err := log.Audit(t.Context(), audit.Request{Limit: audit.MaxPage})
	if err != nil || len(page.Records) < 5 {
		t.Fatalf("%d entries, %v", len(page.Records), err)
	}
	for _, record := range page.Records {
		for _, text := range [][]byte{record.Text, record.Before, record.After} {
			if strings.Contains(string(text), string(made.Digest)) || strings.Contains(string(text), `"digest"`) {
				t.Errorf("it shows %s", text)
			}
		}
	}
}
