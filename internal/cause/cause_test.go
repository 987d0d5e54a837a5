package cause_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"github.com/penstock/penstock/internal/cause"
)

func TestEachCauseHasAText(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "cause.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	ast.Inspect(file, func(node ast.Node) bool {
		spec, is := node.(*ast.ValueSpec)
		if !is || len(spec.Values) != 1 {
			return true
		}
		if value, is := spec.Values[0].(*ast.BasicLit); is {
			code, _ := strconv.Unquote(value.Value)
			if n++; cause.Cause(code).Text() == code {
				t.Errorf("the cause %s has no text", code)
			}
		}
		return true
	})
	if n < 10 {
		t.Errorf("only %d causes were found", n)
	}
}
