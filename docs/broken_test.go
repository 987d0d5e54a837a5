package docs

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// Every kind of fault on a page is reported.
func TestBrokenPages(t *testing.T) {
	t.Parallel()
	block := func(fence, code string) string { return "```" + fence + "\n" + code + "\n```\n" }
	for about, c := range map[string]struct{ text, want string }{
		"a language that nothing checks":    {block("perl", "print 1"), "no check is known"},
		"no language":                       {block("", "x"), "no check is known"},
		"code without a fence":              {"\n    curl x\n", "code is fenced"},
		"a fence that does not end":         {"```sh\ntrue\n", "does not end"},
		"a long line":                       {strings.Repeat("word ", 30), "120 columns"},
		"a link to no file":                 {"[x](none.md)", "there is no none.md"},
		"a link to no heading":              {"[x](#none)", `no heading "none"`},
		"a missing heading of another page": {"[x](design.md#none)", `no heading "none"`},
		"a missing file":                    {"`queue/none.go`", "there is no queue/none.go"},
		"an unknown flag":                   {"`--nonesuch`", "no program has --nonesuch"},
		"an unknown metric":                 {"`penstock_nonesuch_total`", "no metric"},
		"a command that fails":              {block("sh", "penstock queue info none"), "exit status 3"},
		"a different output":                {block("console", "$ echo one\ntwo"), "the page shows"},
		"an unknown flag of a command that is not run": {
			"<!-- not run: why -->\n" + block("sh", "penstock queue ls --nonesuch"), "has no --nonesuch",
		},
		"an unknown command of ours": {
			"<!-- not run: why -->\n" + block("sh", "penstock nonesuch"), "is no command",
		},
		"YAML that is not run":          {"<!-- not run: why -->\n" + block("yaml", "queues: []"), "never left out"},
		"an unknown setting":            {block("yaml", "queues:\n  - {name: a, rate: 1/s, none: 1}"), "none"},
		"JSON without a schema":         {block("json", "{}"), "names its schema"},
		"JSON that violates its schema": {block("json Job", `{"paylaod": 1}`), "paylaod"},
		"Go that nothing compiles":      {block("go", "nonesuch()"), "nothing tests them"},
		"invalid PromQL":                {block("promql", "rate(penstock_jobs[5m]"), "could not parse"},
		"an unknown state": {
			block("mermaid", "stateDiagram-v2\nwaiting --> asleep"), "asleep is no state",
		},
		"a command marked as text":             {block("text", "penstock queue ls"), "is a command"},
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

// faults records the failures of a test.
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
