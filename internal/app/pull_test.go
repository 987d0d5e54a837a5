package app

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
)

// front is an ingress as a process of its own.
type front struct {
	url  string
	cmd  *exec.Cmd
	said chan struct{} // closed when it has said its last
}

func startFront(t *testing.T, args ...string) *front {
	t.Helper()
	f := &front{cmd: program(t, "ingress", append(args, "--listen", "127.0.0.1:0")...), said: make(chan struct{})}
	logs, err := f.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := f.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.kill)
	lines := bufio.NewScanner(logs)
	for f.url == "" && lines.Scan() {
		_, f.url, _ = strings.Cut(lines.Text(), "url=")
	}
	go func() {
		defer close(f.said)
		for lines.Scan() { // or it would wait for somebody to read
		}
	}()
	if f.url == "" {
		t.Fatal("the ingress ended")
	}
	return f
}

// kill is kill -9, and waits until the process is gone. It may be done again.
func (f *front) kill() {
	_ = f.cmd.Process.Kill() // an error means that it has ended
	<-f.said
	_ = f.cmd.Wait()
}

// ask posts to a queue and reads the jobs of the answer.
func ask[T any](ctx context.Context, base, what, body string) (jobs []T, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/queues/work/"+what, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %d %s", what, resp.StatusCode, text)
	}
	var answer struct{ Jobs []T }
	return answer.Jobs, json.Unmarshal(text, &answer)
}

// arrival is a job as a worker got it, which may start it then.
type arrival struct {
	ID, Lease string
	Attempt   int
	ExpiresAt time.Time `json:"expires_at"`

	at    time.Time
	front int
}

// crew is workers who ask several ingresses in turn, and what they got.
type crew struct {
	t      *testing.T
	fronts []*front
	enough int             // arrivals after which one ingress is killed
	kill   func()          // which does that
	ctx    context.Context // ends when all is done
	done   context.CancelFunc
	jobs   int

	mu       sync.Mutex
	arrivals []arrival
	settled  map[string]string // the lease under which a job was delivered
}

// take asks for jobs once. That nobody answers is no fault: an ingress was killed.
func (c *crew) take(front, most int, worker string) []arrival {
	jobs, err := ask[arrival](c.ctx, c.fronts[front].url, "leases", fmt.Sprintf(
		`{"max": %d, "wait": "1s", "worker": %q}`, most, worker,
	))
	at := time.Now()
	if err != nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range jobs {
		jobs[i].at, jobs[i].front = at, front
	}
	before := len(c.arrivals)
	c.arrivals = append(c.arrivals, jobs...)
	if before < c.enough && len(c.arrivals) >= c.enough {
		c.kill()
	}
	return jobs
}

// work takes jobs, here and there, and settles each at another ingress than gave it out.
func (c *crew) work(me int) {
	for i := me; c.ctx.Err() == nil; i++ {
		for _, j := range c.take(i%len(c.fronts), 1+me%3, fmt.Sprint("worker", me)) {
			if me == 0 {
				_, _ = ask[struct{}](
					c.ctx, c.fronts[(i+2)%len(c.fronts)].url, "extend",
					fmt.Sprintf(`{"jobs": [{"id": %q, "lease": %q}]}`, j.ID, j.Lease),
				)
			}
			c.settle(i+1, j)
		}
	}
}

// settle repeats a settlement, here and there, until there is an answer.
func (c *crew) settle(at int, j arrival) {
	body := fmt.Sprintf(`{"jobs": [{"id": %q, "lease": %q, "outcome": "delivered"}]}`, j.ID, j.Lease)
	for ; c.ctx.Err() == nil; at++ {
		answer, err := ask[struct {
			State string
			Stale bool
		}](c.ctx, c.fronts[at%len(c.fronts)].url, "settle", body)
		if err != nil {
			continue
		}
		if answer[0].Stale { // it took longer than the lease
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if before, twice := c.settled[j.ID]; twice || answer[0].State != "delivered" {
			c.t.Errorf("%s under %s: %+v; it was delivered under %q", j.ID, j.Lease, answer[0], before)
		}
		if c.settled[j.ID] = j.Lease; len(c.settled) == c.jobs {
			c.done()
		}
		return
	}
}

// Workers pull a queue through three ingresses on one Redis, one of which is killed in the
// middle, and one worker never settles: what they may start keeps the window law of the
// queue over all of them, and every job is delivered, again only when its lease had run out.
func TestPullKeepsTheLawThroughAKill(t *testing.T) {
	t.Parallel() // it mostly waits
	const jobs, workers, mute = 400, 6, 10
	const slack, lease = 50 * time.Millisecond, 2 * time.Second
	rate := leaky.PerSecond(50)
	redis := redistest.New(t, redistest.Options{})
	c := &crew{t: t, jobs: jobs, enough: jobs / 3, settled: map[string]string{}}
	for range 3 {
		c.fronts = append(c.fronts, startFront(t, "--redis", redis.URL(), "--init"))
	}
	killed := make(chan struct{})
	c.kill = func() { // not waited for by who has the mutex
		go func() {
			defer close(killed)
			c.fronts[1].kill()
		}()
	}
	c.ctx, c.done = context.WithTimeout(t.Context(), 2*time.Minute)
	defer c.done()
	base := c.fronts[0].url + "/v1/queues/work"
	send(t, http.MethodPut, base, `{"rate": "50/s", "slack": "50ms", "lease": "2s", "pull": true}`, "application/json")
	var lines bytes.Buffer
	for i := range jobs {
		fmt.Fprintf(&lines, `{"id": "job%d", "payload": %d}`+"\n", i, i)
	}
	send(t, http.MethodPost, base+"/jobs", lines.String(), "application/x-ndjson")

	var all sync.WaitGroup
	for me := range workers {
		all.Go(func() { c.work(me) })
	}
	all.Go(func() { // never settles
		for got, i := 0, 0; got < mute && c.ctx.Err() == nil; i++ {
			got += len(c.take(i%len(c.fronts), 1, "mute"))
		}
	})
	all.Wait()
	if errors.Is(c.ctx.Err(), context.DeadlineExceeded) {
		t.Fatalf("%d of %d were delivered in two minutes", len(c.settled), jobs)
	}
	<-killed

	// A worker may read late what was written to it in time: so many jobs may start together.
	starts, seen := make([]time.Duration, len(c.arrivals)), make([]int, len(c.fronts))
	for i, a := range c.arrivals {
		starts[i] = a.at.Sub(c.arrivals[0].at)
		seen[a.front]++
		if departs := a.ExpiresAt.Add(-lease); a.at.Before(departs) {
			t.Errorf("%s came %v before its departure", a.ID, departs.Sub(a.at))
		}
	}
	atOnce := workers*2 + 1
	l := law.Law{Rate: rate, Slack: slack, Delta: time.Duration(atOnce) * rate.Interval()}
	if v := l.Judge(law.At(starts)); !v.Held {
		t.Errorf("the window law needs %v: %+v", v.Needed, v.Worst)
	}
	c.again()
	for i, n := range seen {
		if n == 0 {
			t.Errorf("ingress %d gave nothing out: %v", i, seen)
		}
	}
	text := send(t, http.MethodGet, base, "", "")
	var q struct {
		Stats map[string]any
	}
	if err := json.Unmarshal([]byte(text), &q); err != nil {
		t.Fatal(err)
	}
	for what, want := range map[string]int{
		"appended": jobs, "delivered": jobs, "waiting": 0, "scheduled": 0, "leased": 0, "died": 0, "expired": 0,
	} {
		if got, ok := q.Stats[what]; !ok || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %d", what, got, want)
		}
	}
	t.Logf("%d arrivals, by ingress %v", len(c.arrivals), seen)
}

// again checks that a job came again only when its lease had run out, under another one, and
// not after it was delivered.
func (c *crew) again() {
	last := map[string]arrival{}
	for _, a := range c.arrivals {
		if b, before := last[a.ID]; before {
			if a.at.Before(b.ExpiresAt) || a.Attempt <= b.Attempt || c.settled[a.ID] == b.Lease {
				c.t.Errorf("%s came again at %v: %+v after %+v", a.ID, a.at, a, b)
			}
		}
		last[a.ID] = a
	}
	if len(last) != c.jobs {
		c.t.Errorf("%d of %d came", len(last), c.jobs)
	}
}

func send(t *testing.T, method, url, body, contentType string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		t.Fatalf("%s %s: %v, %d %s", method, url, err, resp.StatusCode, text)
	}
	return string(text)
}
