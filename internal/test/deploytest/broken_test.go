package deploytest

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// breakage is a change to a file, and what the check of it must say then.
type breakage struct{ check, file, old, new, want string }

var brokenReadme = []breakage{
	{"readme", "README.md", "compose.yaml", "compose.yml", "does not tell of compose.yaml"},
	{"readme", "README.md", "PENSTOCK_INIT", "PENSTOCK_INIT_STORE", "names PENSTOCK_INIT_STORE"},
	{"readme", "README.md", "`--init`", "`--initialise`", "names --initialise"},
	{"readme", "README.md", "penstock_lost_slots_total", "penstock_lost_total", "names penstock_lost_total"},
	{"readme", "README.md", "(nats.conf)", "(nats.cfg)", "links to nats.cfg"},
}

// Each check finds what is broken for it: a check that cannot fail is none.
func TestBroken(t *testing.T) {
	whole := load(t)
	for _, b := range slices.Concat(brokenServices, brokenMonitoring, brokenReadme) {
		if b.check == "systemd" && analyzer(t) == "" {
			continue
		}
		t.Run(b.check+"/"+b.want, func(t *testing.T) {
			broken := maps.Clone(whole)
			if broken[b.file] = strings.ReplaceAll(whole[b.file], b.old, b.new); broken[b.file] == whole[b.file] {
				t.Fatalf("%s does not have %q: break something else", b.file, b.old)
			}
			found := checks[b.check](t, broken)
			if said := strings.Join(found, "\n"); !strings.Contains(said, b.want) {
				t.Errorf(
					"with %q for %q in %s the check does not say %q, but %d things:\n%s", b.new, b.old, b.file, b.want, len(found),
					said,
				)
			}
		})
	}
}
