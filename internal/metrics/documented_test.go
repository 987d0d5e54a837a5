package metrics

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/penstock/penstock/queue"
)

// docs/metrics.md names exactly the reasons for refusals.
func TestRefusalsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `penstock_refused_total` \\| queue, reason \\| (.*) \\|$").FindSubmatch(page)
	if row == nil {
		t.Fatal("docs/metrics.md has no row of penstock_refused_total")
	}
	documented := map[string]bool{}
	for _, reason := range strings.Split(string(row[1]), ", ") {
		documented[reason] = true
	}
	counted := []string{"overflow_unavailable", "rule_missing", queue.Invalid.String(), queue.Failed.String()}
	for _, o := range queue.AppendOutcomes() {
		if o.Refusal() != nil {
			counted = append(counted, o.String())
		}
	}
	for _, reason := range counted {
		if !documented[reason] {
			t.Errorf("docs/metrics.md does not name the refusal %s", reason)
		}
		delete(documented, reason)
	}
	if len(documented) > 0 {
		t.Errorf("nothing is refused as %v", documented)
	}
}
