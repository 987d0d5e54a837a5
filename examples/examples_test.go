package examples

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// built is the directory of the programs.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "penstock-examples")
	if err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", dir,
		"./custom", "./embed", "./middleware", "./pacedclient", "./producer", "./client_hello", "./client_worker",
		"./client_paced", "./client_producer", "../cmd/penstock")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as what is shipped, which other tests have compiled
	out, err := build.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := built(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// program starts a program in its own directory, and returns its output lines.
func program(t *testing.T, name string, args ...string) (cmd *exec.Cmd, lines *bufio.Scanner) {
	t.Helper()
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(filepath.Join(dir, name), args...)
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "LISTEN=127.0.0.1:0")
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(os.Interrupt); err == nil {
			time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		}
		_, _ = io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil || errs.Len() > 0 {
			t.Errorf("%s ended: %v\n%s", name, err, errs.String())
		}
	})
	return cmd, bufio.NewScanner(out)
}

// next returns the next line of output.
func next(t *testing.T, lines *bufio.Scanner) string {
	t.Helper()
	if !lines.Scan() {
		t.Fatalf("it ended: %v", lines.Err())
	}
	return lines.Text()
}

// moment parses the time at the beginning of a line.
func moment(t *testing.T, line string) time.Time {
	t.Helper()
	at, err := time.Parse("15:04:05.000", strings.Fields(line)[0])
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestEmbed(t *testing.T) {
	_, lines := program(t, "embed")
	var first, last time.Time
	for i := range 15 {
		line := next(t, lines)
		if want := fmt.Sprintf(`welcome-%d {"user": %d}`, i, i); !strings.HasSuffix(line, want) {
			t.Errorf("line %d is %s", i, line)
		}
		if last = moment(t, line); i == 0 {
			first = last
		}
	}
	if took := last.Sub(first); took >= 0 && took < 990*time.Millisecond { // but at midnight
		t.Errorf("15 jobs at 14/s left within %v", took)
	}
}

// A program's own kind of target delivers in order.
func TestCustom(t *testing.T) {
	cmd, lines := program(t, "custom")
	for i := range 3 {
		if line, want := next(t, lines), fmt.Sprint("wrote letter-", i); line != want {
			t.Errorf("%s, want %s", line, want)
		}
	}
	sent, err := os.ReadFile(filepath.Join(cmd.Dir, "sent.txt"))
	if err != nil || !strings.HasPrefix(string(sent), "letter-0 hello 0\nletter-1 hello 1\nletter-2 hello 2\n") {
		t.Errorf("%q, %v", sent, err)
	}
}

func TestMiddleware(t *testing.T) {
	_, lines := program(t, "middleware")
	url := regexp.MustCompile(`http://\S+`).FindString(next(t, lines))
	answers := map[int]int{}
	for range 40 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Api-Key", "tenant-7")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answers[answer.StatusCode]++; answer.StatusCode == http.StatusTooManyRequests &&
			answer.Header.Get("Retry-After") == "" {
			t.Error("a refusal has no Retry-After")
		}
	}
	if answers[200] < 10 || answers[429] == 0 || answers[200]+answers[429] != 40 {
		t.Errorf("answers %v", answers)
	}
}

func TestPacedClient(t *testing.T) {
	var mu sync.Mutex
	var came []time.Time
	partner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		came = append(came, time.Now())
	}))
	defer partner.Close()
	_, lines := program(t, "pacedclient", partner.URL)
	for range 10 {
		if line := next(t, lines); !strings.HasSuffix(line, "200 OK") {
			t.Error(line)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if took := came[9].Sub(came[0]); len(came) != 10 || took < 1700*time.Millisecond {
		t.Errorf("%d requests at 5/s came within %v", len(came), took)
	}
}

// The producer overfills a queue of 5 at 20/s, and all its jobs are accepted. A second run adds no duplicates.
func TestProducer(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir()) // up keeps there where it is to be found
	up, lines := program(t, "penstock", "up", "--listen", "127.0.0.1:0", "--log-level", "error")
	_, url, _ := strings.Cut(next(t, lines), "listening on ")
	go func() { // so that it can go on printing
		for lines.Scan() {
		}
	}()
	token, err := os.ReadFile(filepath.Join(up.Dir, "penstock-data", "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PENSTOCK_TOKEN", strings.TrimSpace(string(token)))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url+"/v1/queues/email",
		strings.NewReader(`{"rate": "20/s", "capacity": 5, "pull": true}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+os.Getenv("PENSTOCK_TOKEN"))
	answer, err := http.DefaultClient.Do(r)
	if err != nil || answer.StatusCode != http.StatusCreated {
		t.Fatal(answer, err)
	}
	_ = answer.Body.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go consume(ctx, url)
	for _, want := range []string{"202 Accepted", "200 OK"} {
		cmd, lines := program(t, "producer", url, "email")
		in, refused := 0, 0
		for in < 20 {
			switch line := next(t, lines); {
			case strings.HasPrefix(line, want):
				in++
			case strings.HasPrefix(line, "429 "):
				refused++
			default:
				t.Fatalf("%v says %s", cmd.Args, line)
			}
		}
		if (refused > 0) != (want == "202 Accepted") {
			t.Errorf("%d times there was no room where %s is the answer", refused, want)
		}
	}
}

// consume leases and settles the jobs of the queue.
func consume(ctx context.Context, url string) {
	post := func(what, body string) string {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/queues/email/"+what, strings.NewReader(body))
		if err != nil {
			return ""
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+os.Getenv("PENSTOCK_TOKEN"))
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return ""
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		return string(text)
	}
	one := regexp.MustCompile(`"id":"([^"]+)".*"lease":"([^"]+)"`)
	for ctx.Err() == nil {
		if m := one.FindStringSubmatch(post("leases", `{"wait": "1s"}`)); m != nil {
			post("settle", fmt.Sprintf(`{"jobs": [{"id": %q, "lease": %q, "outcome": "delivered"}]}`, m[1], m[2]))
		}
	}
}
