package auth

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
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
			if id.Actor != (audit.Actor{Name: "token:" + made.ID, App: "acme", Token: made.ID}) {
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
		r.as(secret) // which may wait for a poll
		time.Sleep(time.Until(made.Expires) - time.Millisecond)
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
