package auth

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/queue"
)

func TestRotate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newMemory())
		ctx := t.Context()
		r.app("acme", "acme-*")
		old, made, err := r.CreateToken(ctx, r.op, Token{
			App: "acme", Grants: []Grant{{Produce, ""}}, Note: "worker", Expires: time.Now().Add(48 * time.Hour),
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, keep := range []time.Duration{-1, MaxKeep + 1} {
			if _, _, err := r.RotateToken(ctx, r.op, made.ID, keep); fieldOf(err) != "keep" {
				t.Errorf("keep %v: %v", keep, err)
			}
		}
		time.Sleep(time.Hour)
		fresh, next, err := r.RotateToken(ctx, r.op, made.ID, 2*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if next.Note != "worker" || next.App != "acme" || !slices.Equal(next.Grants, made.Grants) ||
			next.Expires.Sub(next.Created) != made.Expires.Sub(made.Created) || next.Creator != "store" {
			t.Errorf("%+v", next)
		}
		if kept, err := r.Token(ctx, r.op, made.ID); err != nil || kept.ReplacedBy != next.ID {
			t.Errorf("%+v, %v", kept, err)
		}
		_, _, err = r.RotateToken(ctx, r.op, made.ID, 0)
		if fieldOf(err) != "token" || !strings.Contains(err.Error(), next.ID) {
			t.Errorf("rotated again: %v", err)
		}
		r.as(old)
		r.as(fresh)
		time.Sleep(2*time.Hour - time.Second)
		r.as(old)
		time.Sleep(time.Second)
		r.refused(old, Expired)
		r.as(fresh)
		if _, _, err := r.RotateToken(ctx, r.op, next.ID, 0); err != nil {
			t.Fatal(err)
		}
		r.refused(fresh, Expired)
		r.stop()
	})
}

// What somebody makes whose own proof ends does so no later, whatever he proves himself with.
func TestTokensEndWithWhoMakesThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newMemory())
		ctx := t.Context()
		r.app("acme", "acme-*")
		end := now().Add(time.Minute)
		own, mine, err := r.CreateToken(ctx, r.op, Token{Grants: []Grant{{Admin, ""}}, Expires: end})
		if err != nil {
			t.Fatal(err)
		}
		_, eternal := r.token("acme", Grant{View, ""})
		_, long, err := r.CreateToken(ctx, r.op, Token{Grants: []Grant{{View, ""}}, Expires: end.Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		for name, by := range map[string]*Identity{
			"token": r.as(own), "JWT or certificate": {grants: r.op.grants, subject: "cert:ops", expires: end},
		} {
			for _, ask := range []struct{ expires, want time.Time }{
				{time.Time{}, end}, {end, end}, {end.Add(-time.Second), end.Add(-time.Second)}, {end.Add(time.Second), time.Time{}},
			} {
				_, made, err := r.CreateToken(ctx, by, Token{App: "acme", Grants: []Grant{{View, ""}}, Expires: ask.expires})
				if ask.want.IsZero() {
					if fieldOf(err) != "expires" || !strings.Contains(err.Error(), end.UTC().Format(time.RFC3339)) {
						t.Errorf("%s: beyond its end: %v", name, err)
					}
				} else if err != nil || !made.Expires.Equal(ask.want) {
					t.Errorf("%s: asked for %v: %v, %v", name, ask.expires, made.Expires, err)
				}
			}
		}
		time.Sleep(30 * time.Second)
		for _, id := range []string{mine.ID, eternal.ID, long.ID} {
			if _, next, err := r.RotateToken(ctx, r.as(own), id, time.Second); err != nil || !next.Expires.Equal(end) {
				t.Errorf("rotated: %v, %v; want %v", next.Expires, err, end)
			}
			if id == mine.ID { // it ends a second later
				own, _, err = r.CreateToken(ctx, r.op, Token{Grants: []Grant{{Admin, ""}}, Expires: end})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		r.stop()
	})
}

func TestRegisterToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newMemory())
		ctx := t.Context()
		admin := &Token{Grants: []Grant{{Admin, ""}}}
		secret, generated := NewToken()
		made, err := r.RegisterToken(ctx, r.op, secret, admin)
		if err != nil || made.ID != generated.ID || made.Digest != generated.Digest || made.Creator != "store" {
			t.Fatalf("%+v, %v", made, err)
		}
		r.as(secret)
		if again, err := r.RegisterToken(ctx, r.op, secret, admin); err != nil || again.Revision != made.Revision {
			t.Errorf("registered again: %+v, %v", again, err)
		}
		if _, err := r.RegisterToken(ctx, r.op, secret+"0", admin); err == nil {
			t.Error("a mistyped token is registered")
		}
		// Another secret under the same id must not take its place.
		text := TokenPrefix + made.ID + "_" + strings.Repeat("0", secretLength)
		check := checksum([]byte(text))
		if _, err := r.RegisterToken(ctx, r.op, text+string(check[:]), admin); !errors.Is(err, queue.ErrRevision) {
			t.Errorf("another token with its id: %v", err)
		}
		r.as(secret)
		r.stop()
	})
}

func TestTokensOfAnAppAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newMemory())
		app := r.app("acme", "acme-*")
		synctest.Wait() // the first poll puts a view of its own in place
		r.replica.mu.Lock()
		for n := range MaxAppTokens {
			r.replica.view.tokens[fmt.Sprintf("%012d", n)] = &heldToken{app: "acme", appCreated: micros(app.Created)}
		}
		r.replica.mu.Unlock()
		_, _, err := r.CreateToken(t.Context(), r.op, Token{App: "acme", Grants: []Grant{{View, ""}}})
		if fieldOf(err) != "app" {
			t.Error(err)
		}
		r.stop()
	})
}
