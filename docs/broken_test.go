package docs

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// A page with a fault is told as such, whatever the fault is.
func TestBrokenPages(t *testing.T) {
	t.Parallel()
	block := func(fence, code string) string { return "```" + fence + "\n" + code + "\n```\n" }
	for about, c := range map[string]struct{ text, want string }{
		"a language that nothing checks":      {block("perl", "print 1"), "no check is known"},
		"no language":                         {block("", "x"), "no check is known"},
		"code without a fence":                {"\n    curl x\n", "code is fenced"},
		"a fence that does not end":           {"```sh\ntrue\n", "does not end"},
		"a long line":                         {strings.Repeat("word ", 30), "120 columns"},
		"a link to no file":                   {"[x](none.md)", "there is no none.md"},
		"a link to no heading":                {"[x](#none)", `no heading "none"`},
		"a heading that another page has not": {"[x](design.md#none)", `no heading "none"`},
		"a file that is not there":            {"`queue/none.go`", "there is no queue/none.go"},
		"a flag that is not there":            {"`--nonesuch`", "no program has --nonesuch"},
		"a metric that is not there":          {"`penstock_nonesuch_total`", "no metric"},
		"a command that fails":                {block("sh", "penstock queue info none"), "exit status 3"},
		"an output that is another one":       {block("console", "$ echo one\ntwo"), "the page shows"},
		"a flag of a command that is not run": {
			"<!-- not run: why -->\n" + block("sh", "penstock queue ls --nonesuch"), "has no --nonesuch",
		},
		"a command of ours that there is not": {
			"<!-- not run: why -->\n" + block("sh", "penstock nonesuch"), "is no command",
		},
		"YAML that is not run":                {"<!-- not run: why -->\n" + block("yaml", "queues: []"), "never left out"},
		"a setting that there is not":         {block("yaml", "queues:\n  - {name: a, rate: 1/s, none: 1}"), "none"},
		"JSON without a schema":               {block("json", "{}"), "names its schema"},
		"JSON that its schema does not allow": {block("json Job", `{"paylaod": 1}`), "paylaod"},
		"Go that nothing compiles":            {block("go", "nonesuch()"), "nothing compiles them"},
		"PromQL that cannot be read":          {block("promql", "rate(penstock_jobs[5m]"), "could not parse"},
		"a state that there is not": {
			block("mermaid", "stateDiagram-v2\nwaiting --> asleep"), "asleep is no state",
		},
		"a command that is called text":        {block("text", "penstock queue ls"), "is a command"},
		"a beginning without the reader's aim": {"# Page", "does not begin"},
	} {
		t.Run(about, func(t *testing.T) {
			t.Parallel()
			f := &faults{TB: t}
			done := make(chan struct{})
			go func() {
				defer close(done)
				parse("docs/broken.md", c.text).hold(f)
			}()
			<-done
			if !strings.Contains(strings.Join(f.said, "\n"), c.want) {
				t.Errorf("of\n%s\nit says\n%s\nwant %s", c.text, strings.Join(f.said, "\n"), c.want)
			}
		})
	}
}

// faults notes what a test would fail by.
type faults struct {
	testing.TB
	said []string
}

func (f *faults) Errorf(format string, args ...any) {
	f.said = append(f.said, fmt.Sprintf(format, args...))
}

func (f *faults) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	runtime.Goexit()
}
