package app

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/internal/metrics"
)

func page(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile("../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The pages tell of every flag and every metric.
func TestPagesAreComplete(t *testing.T) {
	configuration := page(t, "configuration.md")
	for _, cli := range []any{&ingressFlags{}, &drainerFlags{}} {
		vars := drainerVars()
		parser, err := newParser(cli, "x", "", io.Discard, io.Discard, vars, func(int) {})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range parser.Model.Flags {
			if f.Name != "help" && f.Name != "version" && !strings.Contains(configuration, "`--"+f.Name+"`") {
				t.Errorf("docs/configuration.md does not tell of --%s", f.Name)
			}
		}
	}

	explained := page(t, "metrics.md")
	reg := &names{}
	_, err1 := metrics.NewEngine(nil, reg, 0)
	_, err2 := metrics.NewGauges(reg, 0)
	_, err3 := metrics.NewObserver(reg, 0)
	_, err4 := metrics.NewHook(reg)
	_, err5 := metrics.NewOverflow(reg, 0)
	_, err6 := metrics.NewPull(reg, 0)
	_, err7 := metrics.NewRules(reg, 0)
	_, err8 := metrics.NewSpans(reg)
	for _, err := range []error{err1, err2, err3, err4, err5, err6, err7, err8} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(reg.list) < 20 {
		t.Errorf("%d metrics", len(reg.list))
	}
	for _, name := range reg.list {
		if !strings.Contains(explained, "`"+name+"`") {
			t.Errorf("docs/metrics.md does not tell of %s", name)
		}
	}
}

// names is a registry that only notes what things are called.
type names struct {
	prometheus.Registerer
	list []string
}

func (n *names) Register(c prometheus.Collector) error {
	descs := make(chan *prometheus.Desc, 10)
	c.Describe(descs)
	close(descs)
	for d := range descs {
		_, rest, _ := strings.Cut(d.String(), `fqName: "`)
		name, _, _ := strings.Cut(rest, `"`)
		n.list = append(n.list, name)
	}
	return nil
}
