package clients

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// language is a client, and how to get the command of its driver.
type language struct {
	name   string
	driver func(t *testing.T) []string
}

var languages = []language{
	{"go", goDriver},
	{"typescript", typescriptDriver},
	{"python", pythonDriver("")},
	{"python-asyncio", pythonDriver("--asyncio")},
}

func goDriver(t *testing.T) []string {
	path := filepath.Join(t.TempDir(), "driver")
	output(t, exec.Command("go", "build", "-trimpath", "-o", path, "../client/internal/driver"))
	return []string{path}
}

// typescriptDriver builds the TypeScript client with what npm installs.
func typescriptDriver(t *testing.T) []string {
	node, npm := program(t, "node"), program(t, "npm")
	if err := typescript(npm); err != nil {
		t.Fatal(err)
	}
	return []string{node, filepath.Join("typescript", "dist", "test", "driver.js")}
}

// typescript builds the TypeScript client, once.
func typescript(npm string) error {
	built.Do(func() {
		for _, args := range [][]string{{"ci", "--no-audit", "--no-fund", "--ignore-scripts"}, {"run", "build"}} {
			c := exec.Command(npm, args...)
			c.Dir = "typescript"
			if text, err := c.CombinedOutput(); err != nil {
				built.err = fmt.Errorf("%v: %w\n%s", c.Args, err, text)
				return
			}
		}
	})
	return built.err
}

var built struct {
	sync.Once
	err error
}

func pythonDriver(flag string) func(t *testing.T) []string {
	return func(t *testing.T) []string {
		command := []string{program(t, "python3"), "-u", filepath.Join("python", "tests", "driver.py")}
		if flag != "" {
			command = append(command, flag)
		}
		return command
	}
}

// program finds a program. Without it, the tests of its client are skipped, but not in CI.
func program(t *testing.T, name string) string {
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
		return path
	case os.Getenv("CI") != "":
		t.Fatalf("%s is missing: %v", name, err)
	}
	t.Skipf("%s is missing, so this client is not tested: install it to test it", name)
	return ""
}

func output(t *testing.T, c *exec.Cmd) {
	t.Helper()
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", c.Args, err, text)
	}
}

// driver is a program that makes the calls of one client. It reads requests and writes answers, one per line, each with
// the number of the call.
type driver struct {
	t  *testing.T
	in io.WriteCloser

	mu     sync.Mutex
	calls  map[int]*call
	errors []byte
	ended  chan struct{}
	err    error
}

// call is a call that was sent.
type call struct {
	n    int
	done chan answer
}

type answer struct {
	N     int            `json:"n"`
	OK    any            `json:"ok"`
	Error map[string]any `json:"error"`
}

func startDriver(t *testing.T, command, env []string) *driver {
	c := exec.Command(command[0], command[1:]...)
	c.Env = env
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	d := &driver{t: t, in: in, calls: map[int]*call{}, ended: make(chan struct{})}
	c.Stderr = d
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(d.ended)
		d.read(out)
		d.err = c.Wait()
	}()
	t.Cleanup(func() {
		_ = c.Process.Kill()
		<-d.ended
		if t.Failed() {
			d.mu.Lock()
			defer d.mu.Unlock()
			t.Logf("the driver wrote\n%s", d.errors)
		}
	})
	return d
}

// Write collects what the driver writes to its standard error.
func (d *driver) Write(text []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.errors = append(d.errors, text[:min(len(text), max(0, 1<<16-len(d.errors)))]...)
	return len(text), nil
}

func (d *driver) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var a answer
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			_, _ = fmt.Fprintf(d, "not an answer: %s\n", lines.Bytes())
			continue
		}
		d.mu.Lock()
		c := d.calls[a.N]
		d.mu.Unlock()
		if c != nil {
			c.done <- a
		}
	}
}

func (d *driver) send(what string, args, options map[string]any) *call {
	d.mu.Lock()
	c := &call{n: len(d.calls) + 1, done: make(chan answer, 2)}
	d.calls[c.n] = c
	d.mu.Unlock()
	line, err := json.Marshal(map[string]any{"n": c.n, "call": what, "args": args, "options": options})
	if err != nil {
		d.t.Fatal(err)
	}
	if _, err := d.in.Write(append(line, '\n')); err != nil {
		d.t.Errorf("the driver does not read: %v", err)
	}
	return c
}

func (c *call) wait(t *testing.T, what string) answer {
	t.Helper()
	select {
	case a := <-c.done:
		return a
	case <-time.After(patience):
		t.Fatalf("%s: no answer in %v", what, patience)
	}
	return answer{}
}

// close ends the driver as a program ends whose work is done.
func (d *driver) close() {
	_ = d.in.Close()
	select {
	case <-d.ended:
		if d.err != nil {
			d.t.Errorf("the driver ended with %v", d.err)
		}
	case <-time.After(patience):
		d.t.Errorf("the driver did not end in %v", patience)
	}
}
