package app

import (
	"context"
	"io"
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
			if _, err := p.check(); (err == nil) != held {
				t.Errorf("%s, %s: %v", who, what, err)
			}
		}
	}
	want("nothing yet", true)
	feed(0, 19)
	want("too few to say", true)
	feed(0, 1)
	want("all late", false)
	if _, err := pulled.check(); !strings.Contains(err.Error(), "20 of the last 20") {
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

// Every reason for which a job is released is reported with what to do about it, except where the process stops.
func TestReasonsOfReleases(t *testing.T) {
	for why := drain.Late + 1; why <= drain.Handlers; why++ { // late for all is an error
		p, fine := newPace(time.Now), why == drain.Stopping || why == drain.Interrupted
		releases(t, p, fine, why.String(), func() { drainPace{drain.NoObserver{}, p}.Released("q", why) })
	}
	for why := pull.Late + 1; why <= pull.Stopping; why++ {
		p := newPace(time.Now)
		releases(t, p, why == pull.Stopping, why.String(), func() { pullPace{noPull{}, p}.Released("q", why) })
	}
}

// releases releases some jobs and checks what a pace says of that: nothing if it is fine.
func releases(t *testing.T, p *pace, fine bool, why string, release func()) {
	t.Helper()
	for range paceEnough {
		release()
	}
	lacks, err := p.check()
	if err != nil || (lacks == nil) != fine {
		t.Errorf("%s: lacks %v, %v", why, lacks, err)
	}
	if want := "gave back 20 of the last 20 departures unused (100.0%): 20 " + why + "; " + remedies[why]; !fine &&
		(lacks.Error() != want || remedies[why] == "") {
		t.Errorf("%s: %v, want %s", why, lacks, want)
	}
}

// A process that gives back more than 1% of its departures says so and why, while it is late for half of them at most.
func TestReleasesAreReported(t *testing.T) {
	now := time.Unix(1000, 0)
	p := newPace(func() time.Time { return now })
	d := drainPace{drain.NoObserver{}, p}
	feed := func(n int, what func()) {
		for range n {
			what()
		}
	}
	started := func() { d.Departed(nil, 0) }
	want := func(what, says string, late bool) {
		t.Helper()
		lacks, err := p.check()
		if (err != nil) != late || (says == "") != (lacks == nil) || lacks != nil && lacks.Error() != says {
			t.Errorf("%s: lacks %v, %v; want %s", what, lacks, err, says)
		}
	}
	feed(4, func() { d.Released("q", drain.Late) })
	feed(20, started)
	want("a handful", "", false)
	feed(1, func() { d.Released("q", drain.Late) })
	want("more", "gave back 5 of the last 25 departures unused (20.0%): 5 late; "+remedies["late"], false)
	feed(475, started)
	want("1%", "", false)
	feed(7, func() { d.Released("q", drain.NoHandler) })
	want("more than 1%", "gave back 12 of the last 507 departures unused (2.4%): 7 no_handler, 5 late; "+
		remedies["no_handler"], false)
	now = now.Add(31 * time.Second)
	want("the window before counts", "gave back 12 of the last 507 departures unused (2.4%): 7 no_handler, 5 late; "+
		remedies["no_handler"], false)
	feed(600, func() { d.Released("q", drain.Late) })
	want("most of them late", "", true)
	now = now.Add(time.Hour)
	want("long ago", "", false)
}

// An ingress that is late for most of the jobs that are pulled says so, and one that gives back more than 1% of them.
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
		in.pace.released(pull.Late.String())
	}
	if text := send(t, http.MethodGet, ready, "", ""); !strings.Contains(text, `"pull":"late"`) ||
		!strings.Contains(text, "20 of the last 20") {
		t.Error(text)
	}
	for range paceEnough {
		in.pace.started()
	}
	if text := send(t, http.MethodGet, ready, "", ""); !strings.Contains(text, `"pull":"releasing"`) ||
		!strings.Contains(text, "this server gave back 20 of the last 40") {
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

// A drainer that gives back more than 1% of its departures is degraded and stays in service. One that is late for most
// does not.
func TestDrainerReportsReleases(t *testing.T) {
	engine, err := store.Open(t.Context(), store.Options{DataPath: filepath.Join(t.TempDir(), "data")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = engine.Close() }()
	idle := drain.HandlerFunc(func(context.Context, *drain.Job) error { return nil })
	d, err := NewDrainer(engine, DrainerOptions{Handler: idle, Listen: ops.Listen{Addr: "127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	want := func(status int, says string) {
		t.Helper()
		resp, err := http.Get("http://" + d.Addr().String() + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != status || !strings.Contains(string(text), says) {
			t.Errorf("%d %s, %v; want %d with %s", resp.StatusCode, text, err, status, says)
		}
	}
	want(http.StatusOK, `"ready"`)
	for range 100 {
		d.pace.started()
	}
	for range 5 {
		d.pace.released(drain.NoHandler.String())
	}
	want(http.StatusOK, `"status":"degraded","detail":"gave back 5 of the last 105 departures unused (4.8%): 5 no_handler`)
	for range 101 {
		d.pace.released(drain.Late.String())
	}
	want(http.StatusServiceUnavailable, "late for 101 of the last 201 departures")
}
