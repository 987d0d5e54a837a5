package auth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
)

func TestTwoAdmins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		one, other := newRig(t, store), newRig(t, store)
		app := one.app("acme", "acme-*")
		_, made := one.token("acme", Grant{View, ""})
		both := func(what string, do func(r *rig, note string) error) {
			t.Helper()
			errs := make([]error, 2)
			var group sync.WaitGroup
			for n, r := range []*rig{one, other} {
				group.Go(func() { errs[n] = do(r, fmt.Sprint(n)) })
			}
			group.Wait()
			if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(errors.Join(errs...), queue.ErrRevision) {
				t.Errorf("%s: %v", what, errs)
			}
		}
		both("an app is put", func(r *rig, note string) error {
			changed := app
			changed.Note = note
			_, err := r.PutApp(t.Context(), r.op, changed, app.Revision)
			return err
		})
		both("an app is made", func(r *rig, note string) error {
			_, err := r.PutApp(t.Context(), r.op, App{Name: "beta", Prefixes: []string{"beta-*"}, Note: note}, 0)
			return err
		})
		both("a subject is put", func(r *rig, note string) error {
			_, err := r.PutSubject(t.Context(), r.op, Subject{Name: "cert:x", Grants: []Grant{{View, ""}}, Note: note}, 0)
			return err
		})
		// Between reading the token and writing it, somebody else writes.
		count := 0
		store.set(func() {
			store.written = func() {
				if count++; count == 1 {
					d, _ := store.Document(t.Context(), KindToken, made.ID)
					d.Text = []byte(strings.Replace(string(d.Text), `"grants"`, `"note":"seen","grants"`, 1))
					_, _ = store.PutDocument(t.Context(), d, d.Revision)
				}
			}
		})
		if _, _, err := one.RotateToken(t.Context(), one.op, made.ID, time.Hour); !errors.Is(err, queue.ErrRevision) {
			t.Errorf("rotated: %v", err)
		}
		tokens, err := other.Tokens(t.Context(), other.op, "acme", "", 10)
		if err != nil || len(tokens) != 1 || tokens[0].ID != made.ID || tokens[0].ReplacedBy != "" {
			t.Errorf("%v, %v", tokens, err)
		}
		one.stop()
		other.stop()
	})
}

func TestWhoMayManage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newMemory())
		ctx := t.Context()
		r.app("acme", "acme-*", "ses.acme")
		r.app("beta", "beta-*")
		who := func(app string, grants ...Grant) *Identity {
			secret, _ := r.token(app, grants...)
			return r.as(secret)
		}
		admin, part := who("acme", Grant{Admin, ""}), who("acme", Grant{Admin, "acme-mail*"})
		mixed := who("acme", Grant{Admin, "acme-mail"}, Grant{View, ""})
		viewer, looker, some := who("acme", Grant{View, ""}), who("", Grant{View, ""}), who("", Grant{Admin, "acme-*"})
		both := who("acme", Grant{Admin, "acme-*"}, Grant{Admin, "ses.acme"})

		const allowed, forbidden, unknown, invalid = "", "forbidden", "unknown", "invalid"
		outcome := func(err error) string {
			switch {
			case err == nil:
				return allowed
			case codeOf(err) == Forbidden:
				return forbidden
			case errors.Is(err, document.ErrUnknown):
				return unknown
			case fieldOf(err) != "":
				return invalid
			}
			return err.Error()
		}
		for n, c := range []struct {
			by   *Identity
			app  string
			give Grant
			want string
		}{
			{r.op, "", Grant{Admin, ""}, allowed},
			{r.op, "", Grant{Admin, "*"}, allowed},
			{r.op, "acme", Grant{Admin, ""}, allowed},
			{r.op, "acme", Grant{View, "acme-mail"}, allowed},
			{r.op, "acme", Grant{View, "beta-mail"}, invalid},
			{r.op, "acme", Grant{View, "*"}, invalid},
			{r.op, "acme", Grant{View, "acme-*x"}, invalid},
			{r.op, "acme", Grant{View, "ACME-*"}, invalid},
			{r.op, "acme", Grant{View, "\u0430cme-*"}, invalid},
			{r.op, "acme", Grant{View, "acme%2d*"}, invalid},
			{r.op, "acme", Grant{View, "ses"}, invalid},
			{r.op, "acme", Grant{"root", ""}, invalid},
			{r.op, "acme", Grant{"ADMIN", ""}, invalid},
			{r.op, "gamma", Grant{View, ""}, unknown},
			{r.op, "Acme", Grant{View, ""}, invalid},
			{admin, "acme", Grant{Admin, ""}, allowed},
			{admin, "acme", Grant{Produce, "acme-mail"}, allowed},
			{admin, "acme", Grant{Produce, "beta-mail"}, invalid},
			{admin, "beta", Grant{View, ""}, unknown},
			{admin, "gamma", Grant{View, ""}, unknown},
			{admin, "", Grant{View, ""}, unknown},
			{both, "acme", Grant{Admin, ""}, allowed},
			{part, "acme", Grant{Admin, "acme-mail*"}, allowed},
			{part, "acme", Grant{Produce, "acme-mail"}, allowed},
			{part, "acme", Grant{View, "acme-*"}, forbidden},
			{part, "acme", Grant{View, ""}, forbidden},
			{part, "beta", Grant{View, ""}, unknown},
			{mixed, "acme", Grant{View, ""}, allowed},
			{mixed, "acme", Grant{Produce, ""}, forbidden},
			{mixed, "acme", Grant{Produce, "acme-mail"}, allowed},
			{viewer, "acme", Grant{View, ""}, forbidden},
			{viewer, "beta", Grant{View, ""}, unknown},
			{looker, "", Grant{View, ""}, forbidden},
			{looker, "acme", Grant{View, ""}, unknown},
			{some, "", Grant{View, "acme-mail"}, allowed},
			{some, "", Grant{View, "*"}, forbidden},
			{some, "acme", Grant{View, ""}, unknown},
		} {
			_, made, err := r.CreateToken(ctx, c.by, Token{App: c.app, Grants: []Grant{c.give}})
			if got := outcome(err); got != c.want {
				t.Errorf("%d: %s gives %v of %q: %v, want %q", n, c.by.Actor.App, c.give, c.app, err, c.want)
			}
			// He sees and ends what he may make, and nothing else.
			made, err = func() (Token, error) {
				if c.want == allowed {
					return made, nil
				}
				_, made, err := r.CreateToken(ctx, r.op, Token{App: c.app, Grants: []Grant{c.give}})
				return made, err
			}()
			if err != nil {
				continue // what is invalid nobody makes
			}
			_, seen := r.Token(ctx, c.by, made.ID)
			_, _, rotated := r.RotateToken(ctx, c.by, made.ID, 0)
			_, ended := r.DeleteToken(ctx, c.by, made.ID, queue.AnyRevision)
			for what, err := range map[string]error{"sees": seen, "rotates": rotated, "ends": ended} {
				if got := outcome(err); got != c.want {
					t.Errorf("%d: %s %v of %q: %v, want %q", n, what, c.give, c.app, err, c.want)
				}
			}
		}

		for _, c := range []struct {
			by                              *Identity
			get, other, put, remove, tokens string
		}{
			{r.op, allowed, allowed, allowed, allowed, allowed},
			{admin, allowed, unknown, forbidden, forbidden, allowed},
			{part, allowed, unknown, forbidden, forbidden, allowed},
			{viewer, allowed, unknown, forbidden, forbidden, forbidden},
			{looker, allowed, allowed, forbidden, forbidden, unknown},
			{some, forbidden, forbidden, forbidden, forbidden, unknown},
		} {
			_, get := r.App(ctx, c.by, "acme")
			_, other := r.App(ctx, c.by, "beta")
			_, tokens := r.Tokens(ctx, c.by, "acme", "", 10)
			_, subjects := r.Subjects(ctx, c.by, "acme", "", 10)
			_, put := r.PutApp(ctx, c.by, App{Name: "acme", Prefixes: []string{"acme-*", "ses.acme"}}, queue.AnyRevision)
			_, subject := r.PutSubject(ctx, c.by, Subject{Name: "cert:x", App: "acme", Grants: []Grant{{View, "acme-mail"}}},
				queue.AnyRevision)
			_, remove := r.DeleteApp(ctx, c.by, "acme", 1<<40)
			if errors.Is(remove, queue.ErrRevision) {
				remove = nil // who may
			}
			for what, is := range map[string][2]string{
				"get": {outcome(get), c.get}, "another": {outcome(other), c.other}, "put": {outcome(put), c.put},
				"subject": {outcome(subject), c.put}, "remove": {outcome(remove), c.remove},
				"tokens": {outcome(tokens), c.tokens}, "subjects": {outcome(subjects), c.tokens},
			} {
				if is[0] != is[1] {
					t.Errorf("%s of %v: %s: %q, want %q", what, c.by.Grants(), c.by.Actor.App, is[0], is[1])
				}
			}
		}
		if _, err := r.DeleteApp(ctx, admin, "beta", queue.AnyRevision); outcome(err) != unknown {
			t.Error(err)
		}
		if apps, err := r.Apps(ctx, viewer, "", 10); err != nil || len(apps) != 1 || apps[0].Name != "acme" {
			t.Errorf("%v, %v", apps, err)
		}
		r.stop()
	})
}

func TestListsArePaged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newMemory())
		ctx := t.Context()
		want := map[string][]string{}
		for n := range 7 {
			name := fmt.Sprintf("app%d", n)
			r.app(name, fmt.Sprintf("p%d-*", n))
			_, made := r.token("app0", Grant{View, ""})
			s := Subject{Name: fmt.Sprintf("unix:%d", 1000+n), App: "app0", Grants: []Grant{{View, ""}}}
			if _, err := r.PutSubject(ctx, r.op, s, 0); err != nil {
				t.Fatal(err)
			}
			want["apps"], want["subjects"] = append(want["apps"], name), append(want["subjects"], s.Name)
			want["tokens"] = append(want["tokens"], made.ID)
		}
		slices.Sort(want["tokens"])
		r.token("app1", Grant{View, ""})
		r.token("", Grant{View, ""})
		got := map[string][]string{}
		for range 5 { // pages of two, the last of which is empty
			last := func(what string) string {
				return append([]string{""}, got[what]...)[len(got[what])]
			}
			apps, err := r.Apps(ctx, r.op, last("apps"), 2)
			tokens, err2 := r.Tokens(ctx, r.op, "app0", last("tokens"), 2)
			subjects, err3 := r.Subjects(ctx, r.op, "app0", last("subjects"), 2)
			if err := errors.Join(err, err2, err3); err != nil {
				t.Fatal(err)
			}
			for _, app := range apps {
				got["apps"] = append(got["apps"], app.Name)
			}
			for _, token := range tokens {
				got["tokens"] = append(got["tokens"], token.ID)
			}
			for _, s := range subjects {
				got["subjects"] = append(got["subjects"], s.Name)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%v, want %v", got, want)
		}
		for _, app := range []string{"nobody", "App0"} {
			if _, err := r.Tokens(ctx, r.op, app, "", 2); !errors.Is(err, document.ErrUnknown) {
				t.Errorf("tokens of %s: %v", app, err)
			}
			if _, err := r.Subjects(ctx, r.op, app, "", 2); !errors.Is(err, document.ErrUnknown) {
				t.Errorf("subjects of %s: %v", app, err)
			}
		}
		r.stop()
	})
}

func TestAuthorityThatDoesNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		a, err := New(store, Options{})
		if err != nil {
			t.Fatal(err)
		}
		op := Operator("store")
		ctx := audit.WithActor(t.Context(), op.Actor)
		if _, err := a.PutApp(ctx, op, App{Name: "acme", Prefixes: []string{"acme-*"}}, 0); err != nil {
			t.Fatal(err)
		}
		secret, _, err := a.CreateToken(ctx, op, Token{App: "acme", Grants: []Grant{{Admin, ""}}})
		if err != nil {
			t.Fatal(err)
		}
		newRig(t, store).as(secret)
		if tokens, err := a.Tokens(ctx, op, "acme", "", 10); err != nil || len(tokens) != 1 || tokens[0].Creator != "store" {
			t.Errorf("%v, %v", tokens, err)
		}
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		stranger, _ := NewToken()
		if _, err := a.Identify(with(stranger).WithContext(short)); codeOf(err) != Unavailable {
			t.Error(err)
		}
	})
}
