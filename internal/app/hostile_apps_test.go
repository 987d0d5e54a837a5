package app_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/penstock/penstock/deferred"
	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/app/natsserver"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/boltq"
	"github.com/penstock/penstock/queue/redisq"
)

var hostileFor = flag.Duration("hostile", 3*time.Second, "how long the hostile app attacks; make hostile says 60s")

const (
	decentApps = 19
	// decentRate is the pace of the queue of each decent app, in jobs a second.
	decentRate = 4
	// burst lets a queue make up for a machine that stood still for less than a second.
	burst = 4
	// smallStore is how much the store may hold.
	smallStore = 256 << 20
	// wholeRun is how long the hostile app needs to take all of the store that it gets. Shorter runs do not judge the
	// pace: they share the machine with other tests.
	wholeRun = time.Minute
)

// One of twenty apps attacks in every way at once, without any limit of its own: it fills the store with dead and
// deferred jobs, and the audit log with changes; others send requests without a token from many addresses. The other
// 19 keep their pace, none of their jobs is refused, and no entry of theirs or of an operator is lost.
func TestHostileAppBesideNineteenOthers(t *testing.T) {
	t.Run("embedded", func(t *testing.T) {
		e, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{MaxBytes: smallStore})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		hostileApp(t, e)
	})
	t.Run("redis", func(t *testing.T) {
		c := redistest.New(t, redistest.Options{MaxMemory: fmt.Sprint(smallStore)}).Client()
		e, err := redisq.OpenClient(t.Context(), c, redisq.Options{Init: true, Partitions: 4, Patience: redistest.Patience})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		hostileApp(t, e)
	})
}

func hostileApp(t *testing.T, e queue.Engine) {
	x := newTown(t, e)
	evil := x.appOf("evil", `{}`)
	x.want(evil, "PUT", "/v1/queues/evil-dead", `{"rate":"unlimited","pull":true,"max_bytes":"1TiB"}`, 201)
	x.want(evil, "PUT", "/v1/queues/evil-later", `{"rate":"1/h","pull":true,"max_bytes":"1TiB","capacity":2,
		"overflow":"defer","deferred":{"max_jobs":1000000}}`, 201)
	decent := make([]string, decentApps)
	for n := range decent {
		decent[n] = x.appOf(teamOf(n), `{"bytes":"1MiB","queues":1}`)
		x.want(decent[n], "PUT", "/v1/queues/"+teamOf(n)+"-q", fmt.Sprintf(
			`{"rate":"%d/s","burst":%d,"slack":"500ms","max_bytes":"1MiB","deliver":{"http":{"url":"%s/%s"}}}`,
			decentRate, burst, x.receiver.URL, teamOf(n)), 201)
	}
	x.want(x.operator, "PUT", "/v1/queues/ops-q", `{"rate":"1/s","pull":true}`, 201)
	before, _ := x.auditKept()

	ctx, stop := context.WithTimeout(t.Context(), *hostileFor)
	defer stop()
	var attack, decency sync.WaitGroup
	var refused, later, sent, operated atomic.Int64
	statuses := x.attack(ctx, &attack, evil)
	for n := range decent {
		decency.Go(func() { x.produce(ctx, teamOf(n), decent[n], &sent, &refused, &later) })
	}
	decency.Go(func() { operated.Store(x.operate(ctx)) })
	x.countFrom(time.Now().Add(time.Second), *hostileFor-time.Second)
	decency.Wait()
	attack.Wait()

	most := math.Inf(-1)
	least, slots := math.Inf(1), decentRate*(*hostileFor-time.Second).Seconds()
	for n := range decent {
		got := float64(x.heard(teamOf(n)))
		least, most = min(least, got/slots), max(most, got/slots)
		if (got < 0.97*slots-1 || got > slots+burst+1) && *hostileFor >= wholeRun {
			t.Errorf("%s had %.0f jobs delivered, want %.0f", teamOf(n), got, slots)
		}
	}
	if refused.Load() > 0 {
		t.Errorf("%d of %d jobs of decent apps were refused", refused.Load(), sent.Load())
	}
	kept, dropped := x.auditKept()
	for budget, n := range before {
		switch budget {
		case audit.OfApp("evil"), audit.Anonymous:
			continue
		case audit.Operators:
			n += operated.Load()
		}
		if kept[budget] != n || dropped[budget] != 0 {
			t.Errorf("%s has %d entries of %d, and %d were dropped", budget, kept[budget], n, dropped[budget])
		}
	}
	minutes := int64(hostileFor.Minutes())
	if kept[audit.Anonymous]+dropped[audit.Anonymous] > minutes+2 {
		t.Errorf("%d entries of unauthenticated requests in %d minutes", kept[audit.Anonymous], minutes)
	}
	said := statuses.text()
	t.Logf("decent: %d jobs sent, %d late by more than 1 s, pace %.3f to %.3f of the rate; operator: %d entries; "+
		"hostile: %s, %d entries kept, %d dropped", sent.Load(), later.Load(), least, most, operated.Load(), said,
		kept[audit.OfApp("evil")], dropped[audit.OfApp("evil")])
	if *hostileFor >= wholeRun && !strings.Contains(said, "store_full") {
		t.Errorf("the hostile app did not come to its part of the store: %s", said)
	}
}

func teamOf(n int) string { return fmt.Sprintf("team%02d", n) }

// town is an ingress and a drainer, with an overflow, over a store that apps share.
type town struct {
	t         *testing.T
	engine    queue.Engine
	authority *auth.Authority
	operator  string
	url       string
	receiver  *httptest.Server

	mu       sync.Mutex
	from, to time.Time
	arrived  map[string]int
}

func newTown(t *testing.T, e queue.Engine) *town {
	t.Helper()
	x := &town{t: t, engine: e, arrived: map[string]int{}}
	x.receiver = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		now := time.Now()
		x.mu.Lock()
		defer x.mu.Unlock()
		if !now.Before(x.from) && now.Before(x.to) {
			x.arrived[r.URL.Path[1:]]++
		}
	}))
	t.Cleanup(x.receiver.Close)
	jet, err := natsserver.Start(t.Context(), natsserver.Options{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(jet.Stop)
	conn, err := nats.Connect(jet.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	stream, err := app.NewOverflow(conn, deferred.Options{
		MaxBytes: smallStore, Patience: redistest.Patience,
	}, app.NewRegistry(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if x.authority, err = auth.New(e, auth.Options{}); err != nil {
		t.Fatal(err)
	}
	in, err := app.NewIngress(e, app.IngressOptions{
		Listen: ops.Listen{Addr: "127.0.0.1:0"}, Auth: x.authority, Overflow: stream,
		Patience:       redistest.Patience,
		ValidateTarget: app.ValidTarget(loopback(t), secrets.Source{}),
		Logger:         slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		t.Fatal(err)
	}
	x.url = in.URL()
	owners := auth.NewOwners(e, nil)
	router := deliver.New(deliver.Options{Egress: loopback(t), Permitted: app.Permitted(owners)})
	d, err := app.NewDrainer(e, app.DrainerOptions{Handler: router, Owners: owners, Overflow: stream})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() {
		ended <- ops.RunOver(ctx, func(ctx context.Context) error { return ops.RunAll(ctx, in.Run, d.Run) }, stream.Run)
	}()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-ended, router.Close()); err != nil {
			t.Error(err)
		}
	})
	await.Until(t, "the authority is ready", func() bool { return x.authority.Ready() == nil })
	x.operator = x.token("", auth.Admin)
	return x
}

func (x *town) token(name string, roles ...auth.Role) string {
	x.t.Helper()
	var grants []auth.Grant
	for _, role := range roles {
		grants = append(grants, auth.Grant{Role: role})
	}
	secret, _, err := x.authority.CreateToken(
		x.t.Context(), auth.Operator("test"), auth.Token{App: name, Grants: grants},
	)
	if err != nil {
		x.t.Fatal(err)
	}
	return secret
}

// appOf makes an app of the names NAME-*, and returns a token that may do all that the app may.
func (x *town) appOf(name, limits string) (token string) {
	x.t.Helper()
	x.want(x.operator, "PUT", "/v1/apps/"+name, fmt.Sprintf(
		`{"prefixes":["%s-*"],"hosts":["127.0.0.1","a.example"],"limits":%s}`, name, limits), 201)
	return x.token(name, auth.Configure, auth.Produce, auth.Consume, auth.View, auth.Operate)
}

// send returns the status of an answer and its body; a status of 0 is that ctx ended before.
func (x *town) send(
	ctx context.Context, c *http.Client, token, method, path, body string,
) (status int, text []byte) {
	r, err := http.NewRequestWithContext(ctx, method, x.url+path, strings.NewReader(body))
	if err != nil {
		x.t.Error(err)
		return 0, nil
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.Do(r)
	if err == nil {
		defer resp.Body.Close()
		text, err = io.ReadAll(resp.Body)
	}
	if err != nil {
		if ctx.Err() == nil {
			x.t.Error(err)
		}
		return 0, nil
	}
	return resp.StatusCode, text
}

func (x *town) want(token, method, path, body string, status int) {
	x.t.Helper()
	if got, text := x.send(x.t.Context(), http.DefaultClient, token, method, path, body); got != status {
		x.t.Fatalf("%s %s: %d %s, want %d", method, path, got, text, status)
	}
}

// countFrom counts what arrives from an instant on, for so long.
func (x *town) countFrom(at time.Time, d time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.from, x.to = at, at.Add(d)
}

func (x *town) heard(path string) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.arrived[path]
}

// produce sends the jobs of a decent app: a second's worth at once, and then one for each slot.
func (x *town) produce(ctx context.Context, name, token string, sent, refused, later *atomic.Int64) {
	var c http.Client
	c.Transport = &http.Transport{}
	defer c.CloseIdleConnections()
	begun := time.Now()
	for n := 0; ctx.Err() == nil; n++ {
		due := begun.Add(time.Duration(n-decentRate) * time.Second / decentRate)
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(due)):
		}
		status, text := x.send(ctx, &c, token, "POST", "/v1/queues/"+name+"-q/jobs", fmt.Sprintf(
			`{"id":"%d","payload":%q}`, n, strings.Repeat("x", 500)))
		switch status {
		case 0:
		case http.StatusAccepted:
			sent.Add(1)
			if time.Since(due) > time.Second && n >= decentRate {
				later.Add(1)
			}
		default:
			sent.Add(1)
			if refused.Add(1) < 10 {
				x.t.Errorf("a job of %s: %d %s", name, status, text)
			}
		}
	}
}

// operate does what operators do, and returns how many entries that is in the audit log.
func (x *town) operate(ctx context.Context) (acts int64) {
	for n := 0; ctx.Err() == nil; n++ {
		act := [][3]string{
			{"POST", "/v1/queues/ops-q/pause", `{"reason":"maintenance"}`},
			{"POST", "/v1/queues/ops-q/resume", `{}`},
			{"PUT", "/v1/apps/ops", fmt.Sprintf(`{"prefixes":["opsapp-*"],"note":"%d"}`, n)},
		}[n%3]
		// The end of the test cuts none off: it would not be known whether it was done.
		status, text := x.send(x.t.Context(), http.DefaultClient, x.operator, act[0], act[1], act[2])
		if status/100 != 2 {
			x.t.Errorf("operator: %s %s: %d %s", act[0], act[1], status, text)
		} else {
			acts++
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	return acts
}

// auditKept returns how many entries of each budget are kept, and how many went before their time.
func (x *town) auditKept() (kept, dropped map[audit.Budget]int64) {
	x.t.Helper()
	kept, dropped = map[audit.Budget]int64{}, map[audit.Budget]int64{}
	for p := range x.engine.Partitions() {
		for from := int64(0); ; {
			page, err := x.engine.Audit(x.t.Context(), audit.Request{Partition: p, From: from, Limit: audit.MaxPage})
			if err != nil {
				x.t.Fatal(err)
			}
			if from == 0 {
				for _, c := range page.Chains {
					dropped[c.Budget] += c.Dropped
				}
			}
			for i := range page.Records {
				entry, err := page.Records[i].Entry()
				if err != nil {
					x.t.Fatal(err)
				}
				kept[entry.Budget]++
				from = entry.Number + 1
			}
			if len(page.Records) < audit.MaxPage {
				break
			}
		}
	}
	return kept, dropped
}
