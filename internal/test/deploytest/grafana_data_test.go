package deploytest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/deploy/grafana"
	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/app/asynq"
	"github.com/penstock/penstock/internal/app/natsserver"
	"github.com/penstock/penstock/internal/test/redistest"
)

// Every panel has data in a real Prometheus while jobs are delivered, refused, set aside and pulled, and rules are
// asked; but for those that say why they have none. Every rule and alert is evaluated without an error.
func TestDashboardsHaveData(t *testing.T) {
	ingress, drainer := startBusyPenstock(t)
	server := startPrometheus(t, load(t), map[string]string{
		"penstock-ingress": strings.TrimPrefix(ingress, "http://"),
		"penstock-drainer": strings.TrimPrefix(drainer, "http://"),
	})
	missing := map[string]string{} // by where it is asked for: the query
	for _, selector := range happens {
		missing["what is there to be shown, "+selector] = selector + " > 0"
	}
	for _, d := range grafana.All {
		for _, pick := range d.Picks {
			missing[d.Name+", to choose by "+pick.Label] = fmt.Sprintf(`%s{%s!=""}`, pick.Metric, pick.Label)
		}
		for _, mark := range d.Marks() {
			if _, err := server.series(t, asPrometheus(mark.Expr, "30s", ".*")); err != nil {
				t.Errorf("%s, %s: %v", d.Name, mark.Name, err)
			}
		}
		for _, row := range d.Rows {
			for _, p := range row.Panels {
				for _, q := range p.Queries {
					at, query := d.Name+", "+p.Title+", "+q.Legend, asPrometheus(q.Expr, "30s", ".*")
					switch n, err := server.series(t, query); {
					case err != nil:
						t.Errorf("%s: %v", at, err)
					case q.Quiet == "":
						missing[at] = query
					case !strings.Contains(q.Quiet, "no series "):
						t.Errorf("%s has %d series, and does not state when it has none: %q", at, n, q.Quiet)
					}
				}
			}
		}
	}
	if len(missing) < 50 {
		t.Errorf("only %d queries have to have data", len(missing))
	}
	poll(t, "every panel has data, and every rule is evaluated", func() error {
		for at, query := range missing {
			switch n, err := server.series(t, query); {
			case err != nil:
				return err
			case n > 0:
				delete(missing, at)
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("%d have none: %v", len(missing), missing)
		}
		if names, err := server.unhealthy(t); err != nil || len(names) > 0 {
			return fmt.Errorf("%v: %w", names, err)
		}
		return nil
	})
}

// happens is what there has to be, for panels to have more than zeros.
var happens = []string{
	`penstock_deliveries_total{queue="moving",outcome="delivered"}`, `penstock_refused_total{queue="full",reason="full"}`,
	`penstock_refused_total{queue="laned",reason="lane_full"}`, `penstock_rule_decisions_total{outcome="allowed"}`,
	`penstock_rule_decisions_total{outcome="refused"}`, `penstock_rule_decision_seconds_count{by="take"}`,
	`penstock_deferred_total{queue="aside"}`, `penstock_readmitted_total{queue="aside"}`,
	`penstock_pull_jobs_total{queue="resized",outcome="handed"}`, `penstock_quota_left{queue="moving",quota="90000/h"}`,
	`penstock_wait_seconds_count{queue="moving"}`, `penstock_handler_seconds_count{queue="moving"}`,
}

// busy are the queues that make what the panels show; but for the one that is pulled, all are delivered to one target.
var busy = map[string]string{
	"moving":  `"rate":"50/s","slack":"10s","rules":["moving.all"],"limits":[{"quota":"90000/h"}]`,
	"full":    `"rate":"1/h","capacity":1`,
	"aside":   `"rate":"20/s","slack":"10s","capacity":2,"overflow":"defer"`,
	"later":   `"rate":"1/h","capacity":1,"overflow":"defer"`,
	"laned":   `"rate":"1/h","lanes":{"capacity":2}`,
	"resized": `"rate":"20/s","slack":"10s","pull":true`,
}

// startBusyPenstock starts an ingress and a drainer on Redis and NATS, which have work until the test ends, and returns
// where their metrics are.
func startBusyPenstock(t *testing.T) (ingress, drainer string) {
	t.Helper()
	nats, err := natsserver.Start(t.Context(), natsserver.Options{
		Dir: t.TempDir(), Listen: "127.0.0.1:0", LazySync: true, MaxStore: 20 << 30,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nats.Stop)
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select { // long enough to be seen at work
		case <-time.After(200 * time.Millisecond):
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(target.Close)
	redis := redistest.New(t, redistest.Options{Args: []string{"--maxmemory", "1gb"}})
	stores := []string{
		"--redis", redis.URL(),
		"--nats", nats.URL(), "--listen", "127.0.0.1:0", "--egress-allow", "127.0.0.1",
	}
	front, ingress := startInProcess(
		t, app.RunIngress, append(stores, "--init", "--health-listen", "127.0.0.1:0", "--drain-delay", "0")...,
	)
	drainer, _ = startInProcess(t, app.RunDrainer(asynq.Open), stores...)
	token := firstToken(t, redis.URL())

	call(t, token, http.MethodPut, front+"/v1/rules/moving.all",
		`{"algorithm":"token_bucket","rate":"10/s","burst":5}`, http.StatusCreated)
	for name, spec := range busy {
		if name != "resized" {
			spec += fmt.Sprintf(`,"deliver":{"http":{"url":%q}}`, target.URL)
		}
		call(t, token, http.MethodPut, front+"/v1/queues/"+name, "{"+spec+"}", http.StatusCreated)
	}
	post := func(ctx context.Context, path, body string) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, front+path, strings.NewReader(body))
		if err != nil {
			return
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+token)
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	}
	every := func(between time.Duration, do func(context.Context)) {
		ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
		ended := make(chan struct{})
		t.Cleanup(func() { stop(); <-ended })
		go func() {
			defer close(ended)
			for tick := time.NewTicker(between); ; {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
					do(ctx)
				}
			}
		}()
	}
	every(200*time.Millisecond, func(ctx context.Context) {
		for name := range busy {
			for range 4 { // more than some of them take
				post(ctx, "/v1/queues/"+name+"/jobs", `{"payload":1,"lane":"a"}`)
			}
		}
		post(ctx, "/v1/rules/moving.all/take", "")
	})
	every(10*time.Millisecond, func(ctx context.Context) {
		post(ctx, "/v1/queues/resized/leases", `{"max":10,"wait":"1s"}`)
	})
	return ingress, drainer
}

var inText = regexp.MustCompile(`(?m) (url|health_url)=(\S+)$`)

// startInProcess runs a program until the test ends, and returns where it serves, and health and metrics if apart.
func startInProcess(t *testing.T, run app.Program, args ...string) (served, health string) {
	t.Helper()
	var log logged
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, args, io.Discard, &log) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil || t.Failed() {
			t.Errorf("%v ended with %v:\n%s", args, err, log.String())
		}
	})
	poll(t, "it listens", func() error {
		at := map[string]string{}
		for _, m := range inText.FindAllStringSubmatch(log.String(), -1) {
			at[m[1]] = m[2]
		}
		served, health = at["url"], at["health_url"]
		if served == "" || slices.Contains(args, "--health-listen") && health == "" {
			return fmt.Errorf("it does not say where")
		}
		return nil
	})
	return served, health
}

// logged is what a program says, to be read while it does.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
