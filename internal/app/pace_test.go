package app

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/app/store"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue"
)

type noPull struct{ pull.Observer }

func (noPull) Handed(string, time.Duration) {}
func (noPull) Released(string, pull.Reason) {}

func TestPace(t *testing.T) {
	now := time.Unix(1000, 0)
	drained, pulled := newPace(func() time.Time { return now }), newPace(func() time.Time { return now })
	d, q := drainPace{drain.NoObserver{}, drained}, pullPace{noPull{}, pulled}
	feed := func(started, late int) {
		for range started {
			d.Departed(nil, 0)
			q.Handed("q", 0)
		}
		for range late {
			d.Released("q", drain.Late)
			d.Released("q", drain.Stopping) // says nothing about pace
			q.Released("q", pull.Late)
			q.Released("q", pull.Unclaimed)
			q.Released("q", pull.Gone)
		}
	}
	want := func(what string, held bool) {
		t.Helper()
		for who, p := range map[string]*pace{"drainer": drained, "ingress": pulled} {
			if err := p.held(); (err == nil) != held {
				t.Errorf("%s, %s: %v", who, what, err)
			}
		}
	}
	want("nothing yet", true)
	feed(0, 19)
	want("too few to say", true)
	feed(0, 1)
	want("all late", false)
	if err := pulled.held(); !strings.Contains(err.Error(), "20 of the last 20") {
		t.Errorf("said %v", err)
	}
	feed(20, 0)
	want("half late", true)
	feed(0, 1)
	want("more than half late", false)
	now = now.Add(31 * time.Second)
	want("the window before counts", false)
	feed(5, 0)
	want("and the present one", true)
	now = now.Add(31 * time.Second)
	feed(0, 5)
	want("few again", true)
	feed(0, 50)
	want("late again", false)
	now = now.Add(time.Hour)
	want("long ago", true)
}

// An ingress that is late for most of the jobs that are pulled says so.
func TestIngressTellsThatItIsLate(t *testing.T) {
	engine, err := store.Open(t.Context(), store.Options{DataPath: filepath.Join(t.TempDir(), "data")})
	if err != nil {
		t.Fatal(err)
	}
	in, err := NewIngress(engine, IngressOptions{Listen: ops.Listen{Addr: "127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- in.Run(ctx) }()
	ready := in.URL() + "/readyz"
	drainer := queue.ReserveRequest{Client: queue.Client{ID: "drainer"}, Number: 1} // it takes nothing, and is there
	if _, err := engine.Reserve(ctx, drainer); err != nil {
		t.Fatal(err)
	}
	if text := send(t, http.MethodGet, ready, "", ""); !strings.Contains(text, `"ready"`) {
		t.Error(text)
	}
	for range paceEnough {
		in.pace.late()
	}
	if text := send(t, http.MethodGet, ready, "", ""); !strings.Contains(text, `"pull":"late"`) ||
		!strings.Contains(text, "20 of the last 20") {
		t.Error(text)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := engine.Close(); err != nil {
		t.Error(err)
	}
}
