package cli

import (
	"testing"

	"github.com/penstock/penstock/internal/cli/command"
)

func TestSuggestionsForSimilarNames(t *testing.T) {
	t.Setenv(command.EnvURL, ingress(t))
	expect(t, ExitDone, "", "", "queue", "set", "email", "rate=5/s", "pull=true")
	for _, c := range []struct {
		want string
		args []string
	}{
		{"there is no queue emial; did you mean email?", []string{"queue", "set", "emial", "capacity=5"}},
		{"give it a rate, such as rate=14/s", []string{"queue", "set", "letters", "capacity=5"}},
		{`"emial"; did you mean email?; "penstock queue set" creates it`, []string{"queue", "info", "emial"}},
		{"did you mean capacity?", []string{"queue", "set", "email", "capcity=5"}},
		{"did you mean max_attempts?", []string{"queue", "set", "email", "retry.max_attemps=5"}},
		{`"penstock rule apply" creates it`, []string{"rule", "take", "otp"}},
	} {
		expect(t, ExitRefused, "", c.want, c.args...)
	}
	appending := penstock(t, `{"payload":{"n":1}}`, "push", "email", "--file", "-")
	if appending.code != ExitDone {
		t.Fatal(appending)
	}
	expect(t, ExitRefused, "", "--force", "queue", "rm", "email", "--yes")
}

var request = regexp.MustCompile(`(PUT|POST|GET|DELETE) |\?force`)

// Whoever uses the tool is told of no HTTP requests.
func TestTheToolTurnsRequestsIntoCommands(t *testing.T) {
	files, err := filepath.Glob("../api/*.go")
	if err != nil {
		t.Fatal(err)
	}
	below, err := filepath.Glob("../api/httpio/*.go")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, below...)
	n := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "routes.go") {
			continue
		}
		file, err := parser.ParseFile(gotoken.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			literal, is := node.(*ast.BasicLit)
			if !is || literal.Kind != gotoken.STRING {
				return true
			}
			text, _ := strconv.Unquote(literal.Value)
			if !request.MatchString(text) || strings.Count(text, " ") < 2 && !strings.Contains(text, "/v1/") ||
				strings.Contains(text, "ETag") { // a route, or about a header that the tool sets
				return true
			}
			n++
			if got := inCommands.Replace(text); request.MatchString(got) {
				t.Errorf("%s: %q stays %q", name, text, got)
			}
			return true
		})
	}
	if n < 6 {
		t.Errorf("only %d texts were found", n)
	}
}
