package auth

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/queue"
)

// A session holds at every process over the store for 12 hours, whichever of them is started anew, and does what its
// token may.
func TestSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		here, there := newRig(t, store), newRig(t, store)
		here.app("acme", "acme-*")
		secret, made := here.token("acme", Grant{View, ""}, Grant{Consume, ""})
		session, s, err := here.OpenSession(t.Context(), here.as(secret))
		if err != nil || s.SessionOf != made.ID || !s.Expires.Equal(s.Created.Add(SessionLife)) || session == secret {
			t.Fatalf("%+v, %v", s, err)
		}
		id := there.as(session)
		if id.Actor.Name != "token:"+made.ID || id.Actor.Token != made.ID || id.Session() != s.ID ||
			!id.Can(Consume, "acme-x") {
			t.Errorf("it is %+v", id)
		}
		if _, _, err := there.OpenSession(t.Context(), id); fieldOf(err) != "Authorization" {
			t.Errorf("a session of a session: %v", err)
		}
		if _, _, err := there.RotateToken(t.Context(), there.op, s.ID, 0); fieldOf(err) != "token" {
			t.Errorf("a session is rotated: %v", err)
		}
		there.stop()
		again := newRig(t, store)
		again.as(session)
		// It may do no more than its token.
		made.Grants = []Grant{{View, ""}}
		if _, err := here.put(t.Context(), KindToken, made.ID, &made, made.Revision); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if id := again.as(session); id.Can(Consume, "acme-x") || !id.Can(View, "acme-x") {
			t.Errorf("it may do %v", id.Grants())
		}
		time.Sleep(SessionLife)
		again.refused(session, Expired)
		again.as(secret)
		if all, err := again.Tokens(t.Context(), again.op, "acme", "", 10); err != nil || len(all) != 1 {
			t.Errorf("%v, %v are listed", all, err)
		}
		here.stop()
		again.stop()
	})
}

// Whatever ends a session ends what it opened, too.
func TestSessionEnds(t *testing.T) {
	for name, end := range map[string]func(*rig, Token, Token, *Identity) error{
		"signed out": func(r *rig, _, _ Token, id *Identity) error { return r.CloseSession(r.t.Context(), id) },
		"revoked": func(r *rig, _, s Token, _ *Identity) error {
			_, err := r.DeleteToken(r.t.Context(), r.op, s.ID, queue.AnyRevision)
			return err
		},
		"its token revoked": func(r *rig, made, _ Token, _ *Identity) error {
			_, err := r.DeleteToken(r.t.Context(), r.op, made.ID, queue.AnyRevision)
			return err
		},
		"its app deleted": func(r *rig, _, _ Token, _ *Identity) error {
			_, err := r.DeleteApp(r.t.Context(), r.op, "acme", queue.AnyRevision)
			return err
		},
		"20 more": func(r *rig, _, _ Token, id *Identity) error {
			parent := *id
			parent.session = ""
			for range maxSessions {
				time.Sleep(time.Second)
				if _, _, err := r.OpenSession(r.t.Context(), &parent); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newMemory()
				here, there := newRig(t, store), newRig(t, store)
				here.app("acme", "acme-*")
				secret, made := here.token("acme", Grant{View, ""})
				session, s, err := here.OpenSession(t.Context(), here.as(secret))
				if err != nil {
					t.Fatal(err)
				}
				id := there.as(session)
				ctx, cancel := there.Watch(t.Context(), id)
				defer cancel()
				here.t = t
				if err := end(here, made, s, id); err != nil {
					t.Fatal(err)
				}
				select {
				case <-ctx.Done():
				case <-time.After(5 * time.Second):
				}
				if got := codeOf(context.Cause(ctx)); got != Revoked {
					t.Errorf("what it opened: %v", context.Cause(ctx))
				}
				there.refused(session, Revoked)
				if name == "signed out" || name == "20 more" || name == "revoked" {
					there.as(secret)
				}
				here.stop()
				there.stop()
			})
		})
	}
}

// Who signs in by a JWT has a session that ends with it, and so does all that they make.
func TestSessionOfJWT(t *testing.T) {
	p := newProvider(t)
	rs := newSigner(t, "rs", jose.RS256)
	p.keys = []jose.JSONWebKey{rs.public()}
	r := trusting(t, p, nil)
	r.found(p.url)
	const subject = "oidc:k8s#system:serviceaccount:acme:worker"
	s := Subject{Name: subject, App: "acme", Grants: []Grant{{Admin, ""}}}
	if _, err := r.PutSubject(t.Context(), r.op, s, queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
	by := r.as(rs.sign(t, p.claims(nil)))
	session, made, err := r.OpenSession(t.Context(), by)
	if err != nil || made.SessionOf != subject || !made.Expires.Equal(by.expires) {
		t.Fatalf("%+v, %v", made, err)
	}
	id := r.as(session)
	if id.Actor != by.Actor || !id.Can(Produce, "acme-x") || id.Can(Produce, "beta-x") {
		t.Errorf("it is %+v, not %+v", id, by)
	}
	if _, token, err := r.CreateToken(t.Context(), id, Token{App: "acme", Grants: []Grant{{View, ""}}}); err != nil ||
		token.Expires.After(made.Expires) {
		t.Errorf("what it makes ends at %v, and it at %v: %v", token.Expires, made.Expires, err)
	}
	if _, err := r.DeleteSubject(t.Context(), r.op, subject, queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the session ends with its subject", func() bool {
		_, err := r.Identify(with(session))
		return codeOf(err) == Revoked
	})
}
