package provecmd

import (
	"bytes"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/demo"
	"github.com/penstock/penstock/internal/prove"
)

// The exit codes of demo and prove agree with their reports, in both output formats.
func TestExitCodesOfVerdicts(t *testing.T) {
	for _, format := range []string{"table", "json"} {
		for _, held := range []bool{true, false} {
			broken := []string{}
			if !held {
				broken = []string{"3 accepted jobs never arrived"}
			}
			prints := map[string]func(*command.Run) error{
				"demo": func(r *command.Run) error {
					return (&DemoCmd{Output: command.Output{Format: format}}).print(r, &demo.Report{Held: held, Broken: broken})
				},
				"prove": func(r *command.Run) error {
					return (&Cmd{Output: command.Output{Format: format}}).print(r, &prove.Report{Held: held, Broken: broken})
				},
				"prove --rules": func(r *command.Run) error {
					return (&Cmd{Output: command.Output{Format: format}}).printRules(r, &prove.RulesReport{Held: held, Broken: broken})
				},
			}
			for name, print := range prints {
				var out, errs bytes.Buffer
				code := command.Report(&errs, print(&command.Run{Streams: command.Streams{Out: &out, Err: &errs}}))
				want := command.ExitDone
				if !held {
					want = command.ExitFailed
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
