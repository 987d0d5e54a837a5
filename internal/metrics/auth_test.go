package metrics_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/metrics"
)

func TestAuth(t *testing.T) {
	if err := metrics.RegisterAuth(prometheus.NewPedanticRegistry(), nil); err != nil {
		t.Fatal(err)
	}
	a, err := auth.New(nil, auth.Options{})
	if err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewPedanticRegistry()
	if err := metrics.RegisterAuth(reg, a); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := a.Identify(httptest.NewRequest(http.MethodGet, "/v1/queues", nil)); err == nil {
			t.Fatal("who proves nothing is let in")
		}
	}
	got := gathered(t, reg)
	for series, want := range map[string]float64{
		`penstock_auth_requests_total{outcome="missing"}`:  3,
		`penstock_auth_requests_total{outcome="accepted"}`: 0,
		`penstock_auth_documents{}`:                        0,
	} {
		if value, ok := got[series]; !ok || value != want {
			t.Errorf("%s is %v (%v), want %v; there are %v", series, value, ok, want, got)
		}
	}
	if got["penstock_auth_age_seconds{}"] < 1e9 {
		t.Error("a store that was never read was read lately")
	}

	// docs/metrics.md names the outcomes.
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, outcome := range auth.Outcomes() {
		_, row, _ := strings.Cut(string(page), "| `penstock_auth_requests_total` |")
		row, _, _ = strings.Cut(row, "\n")
		if !strings.Contains(row, string(outcome)) {
			t.Errorf("docs/metrics.md does not name the outcome %s", outcome)
		}
	}
}
