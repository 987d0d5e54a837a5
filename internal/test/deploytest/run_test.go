package deploytest

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/cli"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/redistest"
)

// What compose.yaml starts, started here: its Redis, its NATS, its two ingress and a drainer, as it says but for
// addresses. A job that one ingress took is delivered, and all of them are healthy and end when told to.
func TestServices(t *testing.T) {
	deploy := load(t)
	first, err := readCompose(t, deploy, "PENSTOCK_INIT=true", "PENSTOCK_EGRESS_ALLOW=127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	redis := startRedis(t, first.Services["redis"])
	addresses := map[string]string{"redis:6379": redis.Addr()}
	for name, s := range startNATS(t, deploy) {
		addresses[name+":4222"] = s.Addr().String()
	}

	var arrived sync.Map
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		arrived.Store(string(body), true)
	}))
	defer target.Close()

	front, beside := start(t, first.Services["ingress-1"], addresses)
	for _, name := range []string{"ingress-2", "drainer"} {
		s := first.Services[name]
		_, port, _ := strings.Cut(option(s.argv(), "--listen"), ":")
		_, health := start(t, s, addresses)
		if said, err := probe(t, health+"/readyz"); err != nil {
			t.Errorf("%s, which listens on %s in its container, is not ready: %s", name, port, said)
		}
	}
	token := firstToken(t, redis.URL())
	call(
		t, token, http.MethodPut, front+"/v1/queues/email",
		fmt.Sprintf(`{"rate":"100/s","slack":"10s","deliver":{"http":{"url":%q}}}`, target.URL), http.StatusCreated,
	)
	call(t, token, http.MethodPost, front+"/v1/queues/email/jobs", `{"payload":"hello"}`, http.StatusAccepted)
	poll(t, "the job is delivered", func() error {
		if _, ok := arrived.Load(`"hello"`); !ok {
			return fmt.Errorf("it is not")
		}
		return nil
	})

	// What finds no room goes to the overflow, on the three NATS.
	call(t, token, http.MethodPut, front+"/v1/queues/slow", `{"rate":"1/h","capacity":1,"overflow":"defer"}`,
		http.StatusCreated)
	call(t, token, http.MethodPost, front+"/v1/queues/slow/jobs", `{"payload":1}`, http.StatusAccepted)
	if said := call(
		t, token, http.MethodPost, front+"/v1/queues/slow/jobs", `{"payload":2}`, http.StatusAccepted,
	); !strings.Contains(said, `"state":"deferred"`) {
		t.Errorf("a job that finds no room: %s", said)
	}

	// What alerts are about is told of.
	for _, name := range []string{
		"penstock_queues", "penstock_refreshed_timestamp_seconds", "process_start_time_seconds",
	} {
		if page, err := get(t, beside+"/metrics"); err != nil || !strings.Contains(page, "\n"+name+" ") {
			t.Errorf("the ingress does not tell of %s: %v", name, err)
		}
	}

	// Later starts find the store: nobody has to be told to make it.
	later, err := readCompose(t, deploy)
	if err != nil {
		t.Fatal(err)
	}
	start(t, later.Services["ingress-1"], addresses)
}

// startRedis starts Redis with the service's own settings, and asks it what it made of them.
func startRedis(t *testing.T, s service) *redistest.Server {
	t.Helper()
	argv := s.argv()
	if argv[0] != "redis-server" {
		t.Fatalf("the service runs %s", argv[0])
	}
	var args []string
	for i := 1; i+1 < len(argv); i += 2 {
		if argv[i] != "--dir" && argv[i] != "--requirepass" {
			args = append(args, argv[i], argv[i+1])
		}
	}
	redis := redistest.New(t, redistest.Options{Args: args, RequirePass: following(argv, "--requirepass")})
	for name, want := range map[string]string{
		"appendonly": "yes", "appendfsync": "always", "maxmemory": "1073741824", "maxmemory-policy": "noeviction", "save": "",
	} {
		if got, err := redis.Client().ConfigGet(t.Context(), name).Result(); err != nil || got[name] != want {
			t.Errorf("%s is %q, want %q: %v", name, got[name], want, err)
		}
	}
	return redis
}

var (
	servedAt = regexp.MustCompile(`"url":"(http://[^"]+)"`)
	healthAt = regexp.MustCompile(`"health_url":"(http://[^"]+)"`)
)

// start runs a service's program with other addresses until the test ends, and returns where it serves, and where
// health and metrics are.
func start(t *testing.T, s service, addresses map[string]string) (served, health string) {
	t.Helper()
	argv := s.argv()
	run := exec.CommandContext(context.WithoutCancel(t.Context()), tool(t, "cmd/"+argv[0])) // it is told to end, below
	for _, arg := range argv[1:] {
		if flag, _, _ := strings.Cut(arg, "="); flag == "--listen" || flag == "--health-listen" {
			arg = flag + "=0.0.0.0:0" // beyond loopback, as there
		}
		run.Args = append(run.Args, arg)
	}
	for name, value := range s.Environment {
		for there, here := range addresses {
			value = strings.ReplaceAll(value, there, here)
		}
		run.Env = append(run.Env, name+"="+value)
	}
	said, err := run.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	lines, apart := bufio.NewScanner(said), option(argv, "--health-listen") != ""
	var log strings.Builder
	for (served == "" || apart && health == "") && lines.Scan() {
		fmt.Fprintln(&log, lines.Text())
		if m := servedAt.FindStringSubmatch(lines.Text()); m != nil {
			served = strings.Replace(m[1], "localhost", "127.0.0.1", 1)
		}
		if m := healthAt.FindStringSubmatch(lines.Text()); m != nil {
			health = strings.Replace(m[1], "localhost", "127.0.0.1", 1)
		}
	}
	drained := make(chan struct{})
	go func() { defer close(drained); _, _ = io.Copy(&log, said) }()
	t.Cleanup(func() {
		if err := run.Process.Signal(syscall.SIGTERM); err != nil {
			t.Errorf("%v: %v", argv, err)
		}
		<-drained
		if err := run.Wait(); err != nil || t.Failed() {
			t.Errorf("%v ended with %v:\n%s", argv, err, log.String())
		}
	})
	if served == "" {
		t.Fatalf("%v does not say where it serves", argv)
	}
	return served, cmp.Or(health, served)
}

// firstToken is made as deploy/README.md says.
func firstToken(t *testing.T, redis string) string {
	t.Helper()
	var out, said bytes.Buffer
	code := cli.Run(t.Context(), []string{"token", "init", "--redis", redis}, cli.Streams{
		In: strings.NewReader(""), Out: &out, Err: &said,
	})
	if code != cli.ExitDone {
		t.Fatalf("penstock token init: exit %d, %s", code, said.String())
	}
	return strings.TrimSpace(out.String())
}

// call returns the answer, which has the status that is wanted.
func call(t *testing.T, token, method, url, body string, want int) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != want {
		t.Fatalf("%s %s: %s %s, %v", method, url, resp.Status, text, err)
	}
	return string(text)
}

// get returns a page; another status than 200 is an error.
func get(t *testing.T, url string) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s %s", url, resp.Status, text)
	}
	return string(text), err
}

// poll waits until done has no more to complain of.
func poll(t *testing.T, what string, done func() error) {
	t.Helper()
	for begun := time.Now(); ; await.Pause(begun) {
		err := done()
		if err == nil {
			return
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("waited for a minute in vain: %s: %v", what, err)
		}
	}
}
