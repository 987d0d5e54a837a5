package auth

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/queue/audit"
)

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
				there.watchers.mu.Lock()
				if n := len(there.watchers.all); n != 0 {
					t.Errorf("%d are still watched", n)
				}
				there.watchers.mu.Unlock()
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
		late, cancel := r.Watch(t.Context(), &Identity{Actor: audit.Actor{Token: "x"}})
		defer cancel()
		if codeOf(context.Cause(late)) != Unavailable {
			t.Errorf("%v", context.Cause(late))
		}
		r.stop()
	})
}
