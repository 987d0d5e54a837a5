package deploytest

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
)

// probe runs the health check of the containers.
func probe(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), tool(t, "deploy/probe"), args...).CombinedOutput()
	return string(out), err
}

func TestProbe(t *testing.T) {
	var status atomic.Int32
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(int(status.Load()))
		_, _ = w.Write([]byte(r.URL.Path + " says the store is away"))
	})
	clear, secure := httptest.NewServer(answer), httptest.NewTLSServer(answer)
	defer clear.Close()
	defer secure.Close()
	for _, server := range []string{clear.URL, secure.URL} {
		status.Store(http.StatusOK)
		if said, err := probe(t, server+"/readyz"); err != nil || said != "" {
			t.Errorf("%s is ready: %v, %s", server, err, said)
		}
		status.Store(http.StatusServiceUnavailable)
		if said, err := probe(t, server+"/readyz"); err == nil || !strings.Contains(said, "503") ||
			!strings.Contains(said, "/readyz says the store is away") {
			t.Errorf("%s is not ready: %v, %s", server, err, said)
		}
	}
	gone := clear.URL
	clear.Close()
	for _, args := range [][]string{
		{gone + "/readyz"}, {}, {gone, gone}, {"http://192.0.2.1/readyz"}, {"http://example.com/"}, {"http://127.0.0.1:x/"},
	} {
		if said, err := probe(t, args...); err == nil || !strings.HasPrefix(said, "probe: ") {
			t.Errorf("%v: %v, %s", args, err, said)
		}
	}
}
