package console_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/penstock/penstock/internal/cli"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/browser"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/internal/test/transcript"
)

func TestMain(m *testing.M) { browser.Main(m) }

// rig is a penstock up server that can be stopped and restarted.
type rig struct {
	t     *testing.T
	addr  string
	data  string
	flags []string
	stop  func()
	// secret is the operator's token.
	secret string
}

func newRig(t *testing.T, flags ...string) *rig {
	t.Helper()
	r := &rig{t: t, addr: redistest.FreeAddr(t), data: t.TempDir(), flags: flags}
	r.start()
	t.Cleanup(func() { r.stop() })
	return r
}

func (r *rig) start() {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	out, logs := &transcript.Buffer{}, &transcript.Buffer{}
	done := make(chan cli.Exit, 1)
	args := append([]string{"up", "--data", r.data, "--listen", r.addr}, r.flags...)
	go func() { done <- cli.Run(ctx, args, cli.Streams{In: strings.NewReader(""), Out: out, Err: logs}) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if code := <-done; code != cli.ExitDone {
			r.t.Errorf("up ended with %d:\n%s", code, logs)
		}
	})
	await.Until(r.t, "up listens", func() bool { return strings.Contains(out.String(), "listening on") })
	text, err := os.ReadFile(filepath.Join(r.data, "admin.token"))
	if err != nil {
		r.t.Fatal(err)
	}
	r.secret = strings.TrimSpace(string(text))
}

// url returns the URL of a console page.
func (r *rig) url(path string) string { return "http://" + r.addr + "/console" + path }

// call makes an API request as the operator.
func (r *rig) call(method, path string, body any) (int, string) {
	r.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.send(method, path, "application/json", bytes.NewReader(text))
}

func (r *rig) send(method, path, kind string, body io.Reader) (int, string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, "http://"+r.addr+path, body)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	req.Header.Set("Authorization", "Bearer "+r.secret)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}

// must makes an API request that must succeed.
func (r *rig) must(method, path string, body any) string {
	r.t.Helper()
	status, answer := r.call(method, path, body)
	if status/100 != 2 {
		r.t.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
	return answer
}

// fields is a JSON object.
type fields map[string]any

// queue creates a pull queue.
func (r *rig) queue(name string, set fields) {
	r.t.Helper()
	spec := fields{"rate": "10/s", "pull": true}
	for field, value := range set {
		spec[field] = value
	}
	r.must("PUT", "/v1/queues/"+name, spec)
}

// listed waits until the overview shows a queue.
func (r *rig) listed(name string) {
	r.t.Helper()
	await.Until(r.t, "there is "+name, func() bool {
		return strings.Contains(r.must("GET", "/v1/overview?name="+name, nil), `"`+name+`"`)
	})
}

// jobs appends jobs in one request; refusals for lack of room are fine.
func (r *rig) jobs(queue string, n int, set fields) {
	r.t.Helper()
	var lines bytes.Buffer
	for i := range n {
		job := fields{"payload": fields{"n": i}}
		for field, value := range set {
			job[field] = value
		}
		text, err := json.Marshal(job)
		if err != nil {
			r.t.Fatal(err)
		}
		lines.Write(append(text, '\n'))
	}
	r.send(http.MethodPost, "/v1/queues/"+queue+"/jobs", "application/x-ndjson", &lines)
}

// signIn opens a page and signs in as the operator.
func (r *rig) signIn(o browser.Options) *browser.Page {
	r.t.Helper()
	p := browser.New(r.t, o)
	p.Go(r.url("/"))
	p.Type("input[name=token]", r.secret)
	p.Click("button.primary")
	p.Text("#overview")
	return p
}
