package auth

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/queue"
)

func TestTidy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newMemory())
		ctx := t.Context()
		r.app("acme", "acme-*")
		r.app("beta", "beta-*")
		_, stays := r.token("acme", Grant{View, ""})
		_, operators := r.token("", Grant{View, ""})
		_, ofBeta := r.token("beta", Grant{View, ""})
		expiredFor := func(ago time.Duration) string {
			_, old := r.token("acme", Grant{View, ""})
			old.Expires = time.Now().Add(-ago)
			if _, err := r.put(ctx, KindToken, old.ID, &old, old.Revision); err != nil {
				t.Fatal(err)
			}
			return old.ID
		}
		lately, longAgo := expiredFor(keepExpired-2*tidyEvery), expiredFor(keepExpired)
		for _, app := range []string{"acme", "beta", ""} {
			s := Subject{Name: "cert:x" + app, App: app, Grants: []Grant{{View, ""}}}
			if _, err := r.PutSubject(ctx, r.op, s, 0); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := r.DeleteApp(ctx, r.op, "beta", queue.AnyRevision); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		r.app("beta", "beta-*")
		has := func(kind, name string) bool {
			_, err := r.store.Document(ctx, kind, name)
			return err == nil
		}
		time.Sleep(tidyEvery + time.Minute)
		for _, c := range []struct {
			kind, name string
			want       bool
		}{
			{KindToken, stays.ID, true},
			{KindToken, operators.ID, true},
			{KindToken, ofBeta.ID, false},
			{KindToken, lately, true},
			{KindToken, longAgo, false},
			{KindSubject, "cert:xacme", true},
			{KindSubject, "cert:xbeta", false},
			{KindSubject, "cert:x", true},
			{KindApp, "acme", true},
			{KindApp, "beta", true},
		} {
			if has(c.kind, c.name) != c.want {
				t.Errorf("%s %s is there: %v", c.kind, c.name, !c.want)
			}
		}
		// An app that cannot be read here has its tokens all the same.
		r.store.set(func() {
			d := r.store.all["app/acme"]
			r.store.revision++
			d.Revision, d.Text = r.store.revision, []byte(`{"prefixes":7}`)
			r.store.all["app/acme"] = d
		})
		time.Sleep(2 * tidyEvery)
		if !has(KindToken, stays.ID) || !has(KindSubject, "cert:xacme") {
			t.Error("what is of an app that cannot be read was deleted")
		}
		r.stop()
	})
}
