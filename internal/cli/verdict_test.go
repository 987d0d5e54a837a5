package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/cli/demo"
	"github.com/penstock/penstock/internal/prove"
)

// TestExitCodesOfVerdicts holds demo and prove to exit codes that say what their
// reports do, in both forms of output.
func TestExitCodesOfVerdicts(t *testing.T) {
	for _, format := range []string{"table", "json"} {
		for _, held := range []bool{true, false} {
			broken := []string{}
			if !held {
				broken = []string{"3 accepted jobs never arrived"}
			}
			prints := map[string]func(*run) error{
				"demo": func(r *run) error {
					return (&demoCmd{output: output{format}}).print(r, &demo.Report{Held: held, Broken: broken})
				},
				"prove": func(r *run) error {
					return (&proveCmd{output: output{format}}).print(r, &prove.Report{Held: held, Broken: broken})
				},
				"prove --rules": func(r *run) error {
					return (&proveCmd{output: output{format}}).printRules(r, &prove.RulesReport{Held: held, Broken: broken})
				},
			}
			for name, print := range prints {
				var out, errs bytes.Buffer
				code := complain(&errs, print(&run{Streams: Streams{Out: &out, Err: &errs}}))
				want := ExitDone
				if !held {
					want = ExitFailed
				}
				if code != want || !held != strings.Contains(out.String(), broken0(broken)) || errs.Len() > 0 {
					t.Errorf("%s %s held %v: exit %d\n%s%s", name, format, held, code, out.String(), errs.String())
				}
			}
		}
	}
}

func broken0(broken []string) string {
	if len(broken) == 0 {
		return "never arrived"
	}
	return broken[0]
}
