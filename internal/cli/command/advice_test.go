package command

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var request = regexp.MustCompile(`(PUT|POST|GET|DELETE) |\?force`)

// Errors of the server name commands, not HTTP requests.
func TestRequestsBecomeCommands(t *testing.T) {
	files, err := filepath.Glob("../../api/*.go")
	if err != nil {
		t.Fatal(err)
	}
	below, err := filepath.Glob("../../api/httpio/*.go")
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
			if strings.HasSuffix(text, "/") { // a name follows
				text += "x creates it"
			}
			if got := inCommands(text); request.MatchString(got) {
				t.Errorf("%s: %q stays %q", name, text, got)
			}
			return true
		})
	}
	if n < 6 {
		t.Errorf("only %d texts were found", n)
	}
}
