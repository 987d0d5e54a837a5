package clients

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// server is a penstock that runs as a process of its own.
type server struct {
	url, token string
	args       []string
	command    *exec.Cmd
	ended      chan struct{}
}

// binary builds penstock, once.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "penstock-clients-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "penstock")
	c := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "../cmd/penstock")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	text, err := c.CombinedOutput()
	if err != nil {
		_, _ = os.Stderr.Write(text)
	}
	return path, err
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := binary(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// startServer starts penstock up, and stops it at the end of the test.
func startServer(t *testing.T, args ...string) *server {
	t.Helper()
	s := &server{args: append([]string{"up", "--egress-allow", "127.0.0.1"}, args...)}
	s.start(t)
	t.Cleanup(func() {
		if s.command != nil {
			_ = s.command.Process.Kill()
			<-s.ended
		}
	})
	return s
}

func (s *server) start(t *testing.T) {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(path, s.args...)
	// What a killed server leaves behind is removed with the program.
	c.Env = append(os.Environ(), "TMPDIR="+filepath.Dir(path))
	in, err := c.StdinPipe() // it ends with this process
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	s.command, s.ended = c, make(chan struct{})
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	if err != nil {
		t.Fatalf("penstock up: %v", err)
	}
	go func() {
		defer close(s.ended)
		_, _ = io.Copy(io.Discard, lines)
		_ = c.Wait()
		_ = in.Close()
	}()
	var address struct{ URL, Token string }
	if json.Unmarshal([]byte(first), &address) == nil {
		s.url, s.token = address.URL, address.Token
		return
	}
	s.url = strings.TrimSpace(strings.TrimPrefix(first, "listening on "))
	for i, arg := range s.args {
		if arg == "--data" {
			token, err := os.ReadFile(filepath.Join(s.args[i+1], "admin.token"))
			if err != nil {
				t.Fatal(err)
			}
			s.token = strings.TrimSpace(string(token))
		}
	}
}

// do kills, starts, stops (SIGSTOP) or continues the server.
func (s *server) do(t *testing.T, what string) {
	t.Helper()
	switch what {
	case "kill":
		_ = s.command.Process.Kill()
		<-s.ended
		s.command = nil
	case "start":
		s.start(t)
	case "stop":
		_ = s.command.Process.Signal(syscall.SIGSTOP)
	case "continue":
		_ = s.command.Process.Signal(syscall.SIGCONT)
	default:
		t.Fatalf("server: %q is unknown", what)
	}
}

// ask asks the server itself, not through the proxy.
func (s *server) ask(t *testing.T, method, path string, body []byte) (text []byte, status int) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	req.Header.Set("Content-Type", "application/json")
	c := http.Client{Timeout: 30 * time.Second}
	resp, err := c.Do(req)
	if err != nil {
		return []byte(err.Error()), 0
	}
	defer func() { _ = resp.Body.Close() }()
	return readAll(resp.Body), resp.StatusCode
}

// freeAddress returns an address that is free now.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
