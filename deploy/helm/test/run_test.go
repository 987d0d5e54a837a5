package test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/app/asynq"
	"github.com/penstock/penstock/internal/cli"
	"github.com/penstock/penstock/internal/test/redistest"
)

const valuesToRun = `
init: {tokenSecret: {name: penstock-token}}
apply: {tokenSecret: {name: penstock-token}}
secrets: [{name: API_TOKEN, secret: {name: provider-a, key: token}, hosts: [api.example.com]}]
queues: |
  queues:
    - name: email
      rate: 14/s
      deliver:
        http: {url: "https://api.example.com/v1/send", headers: {Authorization: "Bearer ${secret:API_TOKEN}"}}
`

// The pods of an installation run here, in Helm's order, on a real Redis: the Job that creates the store, ingress and
// drainer, and the Jobs that register a token and apply the queues. Only addresses and paths differ.
func TestPodsRun(t *testing.T) {
	redis := redistest.New(t, redistest.Options{})
	var values map[string]any
	if err := yaml.UnmarshalStrict([]byte(valuesToRun), &values); err != nil {
		t.Fatal(err)
	}
	r := installValues(t, "values to run", valuesToRun, values)
	pods := map[string]*pod{}
	for _, p := range r.pods() {
		pods[p.owner.name] = &p
	}
	argv := func(name string) []string {
		return commandLine(pods[name], mount(t, pods[name], r), map[string]string{"PENSTOCK_REDIS": redis.URL()})
	}
	if said := job(t, argv("penstock-init")); !strings.Contains(said, "was created: 16 partitions") {
		t.Errorf("the Job that creates the store says %q", said)
	}
	front := serve(t, pods["penstock-ingress"], append(argv("penstock-ingress"), "--drain-delay=0s"))
	serve(t, pods["penstock-drainer"], argv("penstock-drainer"))
	token := adminToken()
	if said := job(t, argv("penstock-token")); !strings.Contains(said, "is registered") || strings.Contains(said, token) {
		t.Errorf("the Job that registers the token says %q", said)
	}
	t.Setenv("PENSTOCK_TOKEN", token)

	apply := argv("penstock-apply")
	server := option(apply, "--server")
	if said := job(t, append(apply, "--server="+front)); !strings.Contains(said, "email unchanged") {
		t.Errorf("the ingress has not created the queue; the Job says %q", said)
	}
	host := strings.TrimSuffix(strings.TrimPrefix(server, "http://"), ":80")
	for name, want := range map[string]int{host: http.StatusOK, "evil.example.com": http.StatusMisdirectedRequest} {
		if status := get(t, front+"/v1/queues/email", name, token); status != want {
			t.Errorf("a request for the host %s: %d, want %d", name, status, want)
		}
	}
}

// The pod of mode up runs, and its probes answer.
func TestUpRuns(t *testing.T) {
	r := installValues(t, "mode: up", "mode: up", map[string]any{"mode": "up"})
	p := r.pods()[0]
	serve(t, &p, commandLine(&p, mount(t, &p, r), nil))
}

// job runs a Job to its end and returns what it prints.
func job(t *testing.T, argv []string) string {
	t.Helper()
	var out, said bytes.Buffer
	if code := cli.Run(t.Context(), argv[1:], cli.Streams{
		In: strings.NewReader(""), Out: &out, Err: &said,
	}); code != cli.ExitDone {
		t.Fatalf("%v: exit %d\n%s%s", argv, code, out.String(), said.String())
	}
	return out.String()
}

var servedAt = regexp.MustCompile(`\burl"?[=:]"?(http://[^"\s]+)`)

// serve runs a pod until the test ends, checks that its probes answer, and returns the URL of its API.
func serve(t *testing.T, p *pod, argv []string) (url string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	argv = append(argv, "--listen=127.0.0.1:0")
	health := ""
	if option(argv, "--health-listen") != "" {
		health = free(t)
		argv = append(argv, "--health-listen="+health)
	}
	lines, said := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := start(ctx, argv, said)
		done <- err
		_ = said.CloseWithError(io.EOF)
	}()
	log := bufio.NewScanner(lines)
	text := ""
	for url == "" && log.Scan() {
		text += log.Text() + "\n"
		if m := servedAt.FindStringSubmatch(log.Text()); m != nil {
			url = m[1]
		}
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("%v: %v\n%s", argv, err, text)
		}
	})
	if url == "" {
		t.Fatalf("%v does not serve:\n%s", argv, text)
	}
	beside := url
	if health != "" {
		beside = "http://" + health
	}
	c := &p.spec.Containers[0]
	for _, probe := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		if status := get(t, beside+probe.HTTPGet.Path, "", ""); status != http.StatusOK {
			t.Errorf("%s: the probe %s gets %d", p.owner, probe.HTTPGet.Path, status)
		}
	}
	if status := get(t, beside+"/metrics", "", ""); status != http.StatusOK {
		t.Errorf("%s: a scrape gets %d", p.owner, status)
	}
	return url
}

func start(ctx context.Context, argv []string, said io.Writer) error {
	switch argv[0] {
	case "ingress":
		return app.RunIngress(ctx, argv[1:], io.Discard, said)
	case "drainer":
		return app.RunDrainer(asynq.Open)(ctx, argv[1:], io.Discard, said)
	}
	if code := cli.Run(ctx, argv[1:], cli.Streams{
		In: strings.NewReader(""), Out: io.Discard, Err: said,
	}); code != cli.ExitDone && code != cli.ExitInterrupted {
		return fmt.Errorf("exit %d", code)
	}
	return nil
}

// free returns an address of this machine that nothing uses.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// get returns the status of a page, 0 if nothing answers.
func get(t *testing.T, url, host, token string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	return resp.StatusCode
}
