package redisq

import (
	"context"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/test/redistest"
)

// Every operation is put together from files that are there, Redis can compile it, and what one part takes of another
// is given by it.
func TestScriptsAreWhole(t *testing.T) {
	t.Parallel()
	c := redistest.New(t, redistest.Options{}).Client()
	calls, err := fs.Glob(luaFiles, "lua/calls/*.lua")
	if err != nil || len(calls) == 0 {
		t.Fatal(calls, err)
	}
	reached := regexp.MustCompile(`\b([a-z]+)\.([a-zA-Z]+)\(`)
	for _, p := range lazyParts {
		if !slices.Contains(library(p.file).gives, p.first) {
			t.Errorf("the part %s goes on in %s, which %s.lua does not give", p.name, p.first, p.file)
		}
	}
	for _, path := range calls {
		call := strings.TrimSuffix(strings.TrimPrefix(path, "lua/calls/"), ".lua")
		if call == "take" || call == "takeaudited" { // see algorithms.go
			continue
		}
		op, text := readLua("calls/"+call), assemble(call)
		if err := c.ScriptLoad(context.Background(), text).Err(); err != nil {
			t.Errorf("%s: %v", call, err)
		}
		parts := partsOf(op)
		for name := range parts {
			if !slices.ContainsFunc(lazyParts, func(p lazyPart) bool { return p.name == name }) {
				t.Errorf("%s has a part %q that nobody makes", call, name)
			}
		}
		for _, p := range lazyParts {
			if files := parts[p.name]; files != nil && !slices.Contains(closure(files, base), p.file) {
				t.Errorf("%s: its part %s goes on in %s, which is not in it", call, p.name, p.file)
			}
		}
		for _, m := range reached.FindAllStringSubmatch(text, -1) {
			file, function := m[1], m[2]
			if _, err := fs.Stat(luaFiles, "lua/lib/"+file+".lua"); err != nil || len(library(file).gives) == 0 {
				continue // a table of Lua's own, or of Redis
			}
			if !slices.Contains(library(file).gives, function) {
				t.Errorf("%s uses %s.%s, which %s.lua does not give", call, file, function, file)
			}
		}
	}
}
