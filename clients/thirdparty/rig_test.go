// Package thirdparty tests that programs with the libraries of other vendors work with the pacing proxy, when only
// their base URL and key are changed. The provider behind the proxy is simulated by penstock sink.
package thirdparty

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const providerKey = "sk-simulated-0123456789"

// built has the programs that are built once.
var built = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "penstock-thirdparty-"); err != nil {
		return "", err
	}
	run := func(name string, args ...string) {
		if err != nil {
			return
		}
		c := exec.Command(name, args...)
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
		c.Stdout, c.Stderr = os.Stderr, os.Stderr
		err = c.Run()
	}
	run("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(dir, "penstock"), "../../cmd/penstock")
	run("go", "build", "-trimpath", "-o", filepath.Join(dir, "gohttp"), "./gohttp")
	run("npm", "ci", "--no-audit", "--no-fund")
	return dir, err
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, _ := built(); dir != "" {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

func directory(t *testing.T) string {
	t.Helper()
	dir, err := built()
	if err != nil {
		t.Fatalf("build the programs, which needs go, node and npm: %v", err)
	}
	return dir
}

// program is a program with the library of a provider.
type program struct {
	name, provider string
	command        []string
}

func programs(t *testing.T) []program {
	t.Helper()
	return []program{
		{"openai", "openai", []string{"node", "openai.mjs"}},
		{"anthropic", "anthropic", []string{"node", "anthropic.mjs"}},
		{"urllib", "openai", []string{"python3", "-u", "urllib_calls.py"}},
		{"net-http", "openai", []string{filepath.Join(directory(t), "gohttp")}},
	}
}

// report is what a program prints about a call.
type report struct {
	Stream   bool
	Statuses []int // of all answers, retried or not
	Pieces   int
	Tokens   int
	Error    string
	Message  string
	Status   int
}

// run runs a program that makes calls. base is the base URL of the provider, without /v1.
func (p program) run(t *testing.T, base, key string, args []string, env ...string) (reports []report) {
	t.Helper()
	c := exec.CommandContext(t.Context(), p.command[0], append(p.command[1:], args...)...)
	c.Env = append(os.Environ(),
		"OPENAI_BASE_URL="+base+"/v1", "OPENAI_API_KEY="+key, "ANTHROPIC_BASE_URL="+base, "ANTHROPIC_API_KEY="+key)
	c.Env = append(c.Env, env...)
	var errors bytes.Buffer
	c.Stderr = &errors
	out, err := c.Output()
	if err != nil {
		t.Errorf("%s: %v\n%s%s", p.name, err, out, errors.String())
		return nil
	}
	for line := range strings.Lines(string(out)) {
		var r report
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Errorf("%s printed %q: %v", p.name, line, err)
		}
		reports = append(reports, r)
	}
	return reports
}

// process is penstock, and the first line that it printed with a mark.
type process struct{ line string }

// start starts penstock, and stops it at the end of the test.
func start(t *testing.T, mark string, env []string, args ...string) process {
	t.Helper()
	c := exec.CommandContext(context.Background(), filepath.Join(directory(t), "penstock"), args...)
	// What a killed server leaves behind is removed with the programs.
	c.Env = append(append(os.Environ(), env...), "TMPDIR="+directory(t))
	in, err := c.StdinPipe() // an ephemeral server ends with it
	if err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stdout, c.Stderr = write, write
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	_ = write.Close()
	lines := bufio.NewReader(read)
	var said strings.Builder
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = in.Close()
		_ = c.Process.Kill()
		<-done
		_ = c.Wait()
		if t.Failed() {
			t.Logf("penstock %s said:\n%s", args[0], said.String())
		}
	})
	for {
		line, err := lines.ReadString('\n')
		said.WriteString(line)
		if err != nil {
			close(done)
			t.Fatalf("penstock %s ended early: %v\n%s", args[0], err, said.String())
		}
		if strings.Contains(line, mark) {
			go func() {
				defer close(done)
				_, _ = io.Copy(&said, io.LimitReader(lines, 1<<20))
			}()
			return process{line}
		}
	}
}

// simulate starts a simulated provider.
func simulate(t *testing.T, name string, args ...string) (url string) {
	t.Helper()
	const mark = "receiving at "
	p := start(t, mark, nil, append([]string{
		"sink", "--listen", "127.0.0.1:0", "--provider", name, "--key", providerKey,
	}, args...)...)
	_, url, _ = strings.Cut(p.line, mark)
	return strings.TrimRight(url, "/\n")
}

// stats are the statistics of a simulated provider.
type stats struct {
	Statuses map[string]int
	Accounts []struct{ Calls, Throttled int }
}

func statsOf(t *testing.T, url string) (s stats) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/stats", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

// server is an ephemeral penstock.
type server struct{ URL, Token string }

// up starts a server with a queue for each simulated provider, by its name.
func up(t *testing.T, rate string, providers map[string]string) server {
	t.Helper()
	args := []string{"up", "--ephemeral", "--egress-allow", "127.0.0.1"}
	var env []string
	for name, url := range providers {
		secret := strings.ToUpper(name) + "_API_KEY"
		args = append(args, "--secret-allow", secret+"=insecure:"+strings.TrimPrefix(url, "http://"))
		env = append(env, "PENSTOCK_SECRET_"+secret+"="+providerKey)
	}
	var s server
	if err := json.Unmarshal([]byte(start(t, `{"url"`, env, args...).line), &s); err != nil {
		t.Fatal(err)
	}
	for name, url := range providers {
		c := exec.CommandContext(t.Context(), filepath.Join(directory(t), "penstock"), "queue", "set", name,
			"--preset", name, "rate="+rate, "deliver.http.url="+url)
		c.Env = append(os.Environ(), "PENSTOCK_URL="+s.URL, "PENSTOCK_TOKEN="+s.Token)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", c.Args, err, out)
		}
	}
	return s
}
