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

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

func TestPutApp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newMemory())
		ctx := t.Context()
		first := r.app("acme", "acme-*", "ses.acme")
		time.Sleep(time.Second)
		app := first
		app.Created, app.Revision, app.Note = time.Now(), 99, "mail"
		app.Limits = Limits{Queues: 3, Bytes: 1 << 20, Handlers: .25, Rate: leaky.PerSecond(100)}
		put, err := r.PutApp(ctx, r.op, app, first.Revision)
		if err != nil || !put.Created.Equal(first.Created) || put.Revision <= first.Revision {
			t.Fatalf("%+v, %v", put, err)
		}
		if again, err := r.PutApp(ctx, r.op, app, put.Revision); err != nil || again.Revision != put.Revision {
			t.Errorf("the same again: %+v, %v", again, err)
		}
		if again, err := r.PutApp(ctx, r.op, app, queue.AnyRevision); err != nil || again.Revision != put.Revision {
			t.Errorf("the same again, of any: %+v, %v", again, err)
		}
		for _, expect := range []int64{0, first.Revision} {
			if now, err := r.PutApp(ctx, r.op, app, expect); !errors.Is(err, queue.ErrRevision) || now.Revision != put.Revision {
				t.Errorf("expecting %d: %+v, %v", expect, now, err)
			}
		}
		got, err := r.App(ctx, r.op, "acme")
		if err != nil || fmt.Sprint(got) != fmt.Sprint(put) {
			t.Errorf("%+v, want %+v, %v", got, put, err)
		}
		r.stop()
	})
}

func TestPutAppRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newMemory())
		r.app("acme", "acme-*", "ses.acme")
		for _, c := range []struct {
			app   App
			field string
		}{
			{App{Name: "beta", Prefixes: []string{"beta-*", "acme-mail"}}, "prefixes[1]"},
			{App{Name: "beta", Prefixes: []string{"ac*"}}, "prefixes[0]"},
			{App{Name: "beta", Prefixes: []string{"ses"}}, "prefixes[0]"},
			{App{Name: "beta", Prefixes: []string{"*"}}, "prefixes[0]"},
			{App{Name: "beta", Prefixes: []string{"app"}}, "prefixes[0]"},
			{App{Name: "beta", Prefixes: []string{"app.beta"}}, "prefixes[0]"},
			{App{Name: "beta", Prefixes: []string{"ap*"}}, "prefixes[0]"},
			{App{Name: "beta"}, "prefixes"},
			{App{Name: "beta", Prefixes: make([]string, MaxPrefixes+1)}, "prefixes"},
			{App{Name: "Beta", Prefixes: []string{"beta-*"}}, "name"},
			{App{Name: "b\u0435ta", Prefixes: []string{"beta-*"}}, "name"},
			{App{Name: "beta.x", Prefixes: []string{"beta-*"}}, "name"},
			{App{Name: "beta%2ex", Prefixes: []string{"beta-*"}}, "name"},
			{App{Name: "../beta", Prefixes: []string{"beta-*"}}, "name"},
			{App{Name: "", Prefixes: []string{"beta-*"}}, "name"},
			{App{Name: "beta", Prefixes: []string{"beta-*"}, Limits: Limits{Queues: -1}}, "limits.queues"},
			{App{Name: "beta", Prefixes: []string{"beta-*"}, Limits: Limits{Bytes: -1}}, "limits.bytes"},
			{App{Name: "beta", Prefixes: []string{"beta-*"}, Limits: Limits{Handlers: 1.1}}, "limits.handlers"},
			{App{Name: "beta", Prefixes: []string{"beta-*"}, Hosts: []string{""}}, "hosts[0]"},
			{App{Name: "beta", Prefixes: []string{"beta-*"}, Note: strings.Repeat("x", 257)}, "note"},
			{App{Name: "beta", Prefixes: []string{"beta-*"}, Note: "a\nb"}, "note"},
		} {
			if _, err := r.PutApp(t.Context(), r.op, c.app, 0); fieldOf(err) != c.field {
				t.Errorf("%+v: %v", c.app, err)
			}
		}
		if apps, err := r.Apps(t.Context(), r.op, "", 10); err != nil || len(apps) != 1 {
			t.Errorf("%v, %v", apps, err)
		}
		r.stop()
	})
}

// TestTwoAdmins: of two who change the same at once, one is told that it has changed.
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
		if _, _, err := r.RotateToken(ctx, r.op, made.ID, 0); fieldOf(err) != "token" || !strings.Contains(err.Error(), next.ID) {
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

// TestWhoMayManage: each does what he may, and what is another's is to him as what there is not.
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
			case errors.Is(err, queue.ErrUnknownDocument):
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
			if _, err := r.Tokens(ctx, r.op, app, "", 2); !errors.Is(err, queue.ErrUnknownDocument) {
				t.Errorf("tokens of %s: %v", app, err)
			}
			if _, err := r.Subjects(ctx, r.op, app, "", 2); !errors.Is(err, queue.ErrUnknownDocument) {
				t.Errorf("subjects of %s: %v", app, err)
			}
		}
		r.stop()
	})
}

// TestAuthorityThatDoesNotRun is that of a command with the store: it manages, and lets nobody in.
func TestAuthorityThatDoesNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		a, err := New(store, Options{})
		if err != nil {
			t.Fatal(err)
		}
		op := Operator("store")
		ctx := queue.WithActor(t.Context(), op.Actor)
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

func TestLastUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		here, there := newRig(t, store), newRig(t, store)
		synctest.Wait()
		ctx := t.Context()
		secret, made := here.token("", Grant{View, ""})
		_, idle := here.token("", Grant{View, ""})
		puts := store.puts.Load()
		day := func(r *rig, id string) string {
			t.Helper()
			one, err := r.Token(ctx, r.op, id)
			if err != nil {
				t.Fatal(err)
			}
			all, err := r.Tokens(ctx, r.op, "", "", 10)
			n := slices.IndexFunc(all, func(t Token) bool { return t.ID == id })
			if err != nil || n < 0 || !all[n].LastUsed.Equal(one.LastUsed) {
				t.Fatalf("%v, %v", all, err)
			}
			if one.LastUsed.IsZero() {
				return "never"
			}
			return one.LastUsed.Format(time.DateOnly)
		}
		if got := day(here, made.ID); got != "never" {
			t.Error(got)
		}
		for range 100 {
			here.as(secret)
			there.as(secret)
		}
		today := time.Now().UTC().Format(time.DateOnly)
		if got := day(here, made.ID); got != today {
			t.Error(got)
		}
		time.Sleep(tidyEvery + 2*time.Second)
		late := newRig(t, store)
		synctest.Wait()
		if got := day(late, made.ID); got != today {
			t.Error(got)
		}
		if got := day(late, idle.ID); got != "never" {
			t.Error(got)
		}
		for range 20 {
			time.Sleep(time.Hour)
			here.as(secret)
			late.as(secret)
		}
		if n := store.puts.Load() - puts; n > 4 {
			t.Errorf("%d writes in a day", n)
		}
		time.Sleep(4 * time.Hour)
		tomorrow := time.Now().UTC().Format(time.DateOnly)
		there.as(secret)
		there.stop() // what is left is written
		if got := day(late, made.ID); got != tomorrow {
			t.Errorf("%s, want %s", got, tomorrow)
		}
		here.stop()
		late.stop()
	})
}

func TestUsesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newMemory())
		days := map[string]int32{}
		r.replica.mu.Lock()
		for n := range 3 * mostUses {
			id := fmt.Sprintf("%012d", n)
			days[id] = 20000 + int32(n%3)
			r.replica.view.tokens[id] = &heldToken{}
		}
		r.replica.mu.Unlock()
		r.forgetUses(days)
		if len(days) != mostUses {
			t.Errorf("%d are kept", len(days))
		}
		for id, day := range days {
			if day != 20002 {
				t.Fatalf("%s of day %d is kept", id, day)
			}
		}
		if err := r.writeShard(t.Context(), 0, days); err != nil {
			t.Error(err)
		}
		r.stop()
	})
}

// TestTidy: what nobody can use any more is deleted in the end, and nothing else.
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
			if _, err := r.PutSubject(ctx, r.op, Subject{Name: "cert:x" + app, App: app, Grants: []Grant{{View, ""}}}, 0); err != nil {
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

func TestTokensOfAnAppAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newMemory())
		app := r.app("acme", "acme-*")
		r.replica.mu.Lock()
		for n := range MaxAppTokens {
			r.replica.view.tokens[fmt.Sprintf("%012d", n)] = &heldToken{app: "acme", appCreated: micros(app.Created)}
		}
		r.replica.mu.Unlock()
		if _, _, err := r.CreateToken(t.Context(), r.op, Token{App: "acme", Grants: []Grant{{View, ""}}}); fieldOf(err) != "app" {
			t.Error(err)
		}
		r.stop()
	})
}
