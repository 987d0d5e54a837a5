package docs

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/queue"
)

// check checks each block by its language, and shell blocks in the order of the page.
func (p *page) check(t testing.TB) {
	var s *site
	for _, b := range p.blocks {
		where := p.at(b.line)
		if b.lang != "sh" && b.lang != "console" && b.notRun != "" {
			t.Errorf("%s: %s is checked, never left out", where, b.lang)
		}
		switch b.lang {
		case "sh", "console":
			if b.notRun != "" {
				readOnly(t, where, b.code)
				continue
			}
			if s == nil {
				s = newSite(t, p)
			}
			s.run(t, where, b)
		case "yaml":
			checkYAML(t, where, b.code)
		case "json":
			checkJSON(t, where, b)
		case "go", "python", "js":
			checkSource(t, where, b.lang, b.code)
		case "promql":
			checkPromQL(t, where, b.code)
		case "mermaid":
			checkStates(t, where, b.code)
		case "text": // pictures, formulas, and what programs wrote at another time
			for line := range strings.Lines(b.code) {
				if line = strings.TrimPrefix(strings.TrimSpace(line), "$ "); ours.MatchString(line) ||
					strings.HasPrefix(line, "curl ") {
					t.Errorf("%s: %q is a command: make the block one of sh", where, line)
				}
			}
		default:
			t.Errorf(
				"%s: no check is known for a block of %q; known are sh, console, yaml, json, go, python, js, promql, mermaid "+
					"and text", where,
				b.lang,
			)
		}
	}
	if s != nil {
		s.end(t)
	}
}

// checkYAML parses a file of queues and rules, or its list of queues.
func checkYAML(t testing.TB, where, code string) {
	t.Helper()
	if !strings.HasPrefix(code, "queues:") && !strings.HasPrefix(code, "rules:") {
		code = "queues:\n" + code
	}
	file, err := config.Parse(where, []byte(code), target)
	if err != nil || len(file.Queues)+len(file.Rules) == 0 {
		t.Errorf("%s: %v", where, err)
	}
}

func target(_ string, raw json.RawMessage) error {
	_, err := deliver.Parse(raw)
	return err
}

// checkJSON validates each value against the schema of openapi.json named by the second word after the fence.
func checkJSON(t testing.TB, where string, b block) {
	t.Helper()
	schema, err := schemas().Compile("openapi.json#/components/schemas/" + b.about)
	if b.about == "" || err != nil {
		t.Errorf("%s: a block of JSON names its schema in openapi.json, such as \"json Job\": %v", where, err)
		return
	}
	for values := json.NewDecoder(strings.NewReader(b.code)); ; {
		var raw json.RawMessage
		if err := values.Decode(&raw); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Errorf("%s: %v", where, err)
			return
		}
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
		if err == nil {
			err = schema.Validate(value)
		}
		if err != nil {
			t.Errorf("%s: %v", where, err)
		}
	}
}

var schemas = sync.OnceValue(func() *jsonschema.Compiler {
	f, err := os.Open(filepath.Join(root, "internal/api/openapi.json"))
	if err != nil {
		panic(err)
	}
	defer f.Close()
	doc, err := jsonschema.UnmarshalJSON(f)
	if err != nil {
		panic(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("openapi.json", doc); err != nil {
		panic(err)
	}
	return c
})

// extensions are those of the files in which the lines of a block must stand.
var extensions = map[string]string{"go": ".go", "python": ".py", "js": ".ts"}

// checkSource looks for the lines, ignoring indentation, in a program that the tests compile or run.
func checkSource(t testing.TB, where, lang, code string) {
	t.Helper()
	whole := strings.HasPrefix(code, "package ")
	for _, f := range sources() {
		if filepath.Ext(f.name) == extensions[lang] &&
			(whole && strings.HasSuffix(f.text, code) || !whole && strings.Contains(flat(f.text), flat(code))) {
			return
		}
	}
	t.Errorf("%s: no file in docs/, examples/ or clients/*/examples/ has these lines, so nothing tests them", where)
}

var indent = regexp.MustCompile(`(?m)^[ \t]+`)

func flat(code string) string { return "\n" + indent.ReplaceAllString(code, "") }

type sourceFile struct{ name, text string }

var sources = sync.OnceValue(func() (all []sourceFile) {
	for _, dir := range []string{"examples", "docs", "client", "clients/python/examples", "clients/typescript/examples"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(name string, _ fs.DirEntry, err error) error {
			if err != nil || !slices.Contains(slices.Collect(maps.Values(extensions)), filepath.Ext(name)) {
				return err
			}
			text, err := os.ReadFile(name)
			all = append(all, sourceFile{name, string(text)})
			return err
		})
		if err != nil {
			panic(err)
		}
	}
	return all
})

// checkPromQL parses each line as an expression with promtool.
func checkPromQL(t testing.TB, where, code string) {
	t.Helper()
	name := os.Getenv("PENSTOCK_PROMTOOL")
	if name == "" {
		name = "promtool"
	}
	var rules strings.Builder
	rules.WriteString("groups:\n- name: page\n  rules:\n")
	for line := range strings.Lines(code) {
		expr, _, _ := strings.Cut(strings.TrimSpace(line), " # ")
		if expr != "" {
			rules.WriteString(
				"  - {record: x" + string(rune('a'+strings.Count(rules.String(), "record"))) + ", expr: '" + expr + "'}\n",
			)
		}
	}
	file := filepath.Join(t.TempDir(), "page.yml")
	if err := os.WriteFile(file, []byte(rules.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), name, "check", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", where, err, out)
	}
	for _, metric := range metricName.FindAllString(code, -1) {
		if !strings.Contains(metrics(), "`"+metric+"`") {
			t.Errorf("%s: no metric is called %s", where, metric)
		}
	}
}

var transition = regexp.MustCompile(`^(\S+) --> (\S+)(?: : .*)?$`)

// checkStates checks that a state diagram has exactly the states of a job.
func checkStates(t testing.TB, where, code string) {
	t.Helper()
	shown := map[string]bool{}
	for line := range strings.Lines(code) {
		line = strings.TrimSpace(line)
		if m := transition.FindStringSubmatch(line); m != nil {
			shown[m[1]], shown[m[2]] = true, true
		} else if line != "stateDiagram-v2" && line != "" && !strings.HasPrefix(line, "direction ") {
			t.Errorf("%s: %q is no transition", where, line)
		}
	}
	delete(shown, "[*]")
	for s := queue.Waiting; s <= queue.Expired; s++ {
		if !shown[s.String()] {
			t.Errorf("%s: the state %s is not in it", where, s)
		}
		delete(shown, s.String())
	}
	for other := range shown {
		t.Errorf("%s: %s is no state of a job", where, other)
	}
}
