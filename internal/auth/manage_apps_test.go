package auth

import (
	"errors"
	"fmt"
	"math"
	"strings"
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
		app.Limits = Limits{Queues: 3, Bytes: 1 << 20, Streams: 4, Handlers: .25, Rate: leaky.PerSecond(100)}
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
			{App{Name: "beta", Prefixes: []string{"beta-*"}, Limits: Limits{Waits: -1}}, "limits.waits"},
			{App{Name: "beta", Prefixes: []string{"beta-*"}, Limits: Limits{Handlers: 1.1}}, "limits.handlers"},
			{App{Name: "beta", Prefixes: []string{"beta-*"}, Limits: Limits{Handlers: -.1}}, "limits.handlers"},
			{App{Name: "beta", Prefixes: []string{"beta-*"}, Limits: Limits{Handlers: math.NaN()}}, "limits.handlers"},
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
