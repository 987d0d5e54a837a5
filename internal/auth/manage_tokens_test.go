package auth

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
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

func TestTokensOfAnAppAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newMemory())
		app := r.app("acme", "acme-*")
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
