package redisq

import (
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A file uses only names that it declares itself, or that a file declares which its header names, or which that needs
// in turn. Redis tells the others only when a call comes to them.
func TestScriptsDeclareWhatTheyUse(t *testing.T) {
	t.Parallel()
	calls, err := fs.Glob(luaFiles, "lua/calls/*.lua")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]luaNames{} // by the text: most are libraries, which many calls need
	names := func(text string) luaNames {
		n, ok := known[text]
		if !ok {
			n = namesIn(text)
			known[text] = n
		}
		return n
	}
	for _, path := range calls {
		call := strings.TrimSuffix(strings.TrimPrefix(path, "lua/calls/"), ".lua")
		if call == "take" || call == "takeaudited" { // see algorithms.go
			continue
		}
		op, scope := readLua("calls/"+call), map[string]bool{}
		parts := partsOf(op)
		read := func(scope map[string]bool, files []string) {
			for _, name := range files {
				n := names(library(name).text)
				unbound(t, call+": "+name, n, scope)
				for _, declared := range n.declares {
					scope[declared] = true
				}
			}
		}
		read(scope, base)
		read(scope, []string{"parts"})
		needed := closure(op.needs, base)
		read(scope, needed)
		for _, p := range lazyParts {
			read(maps.Clone(scope), closure(parts[p.name], slices.Concat(base, needed)))
		}
		unbound(t, call, names(op.text), scope)
	}
}

// A name in storedNames is replaced wherever a script has it, so it must be the name of a field.
func TestStoredNamesAreFields(t *testing.T) {
	t.Parallel()
	paths, err := fs.Glob(luaFiles, "lua/*/*.lua")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := fs.ReadFile(luaFiles, path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range namesIn(string(text)).binds {
			if storedNames[name] != "" {
				t.Errorf("%s has a variable %s, which storedNames has as a field", path, name)
			}
		}
	}
}

// The linter checks this for Go.
func TestScriptsFitInto120Columns(t *testing.T) {
	t.Parallel()
	err := fs.WalkDir(luaFiles, ".", func(path string, f fs.DirEntry, err error) error {
		if err != nil || f.IsDir() {
			return err
		}
		text, err := fs.ReadFile(luaFiles, path)
		for i, line := range strings.Split(string(text), "\n") {
			if n := len([]rune(line)); n > 120 {
				t.Errorf("%s:%d has %d columns", path, i+1, n)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

var (
	luaText     = regexp.MustCompile(`--[^\n]*|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"`)
	luaName     = regexp.MustCompile(`[A-Za-z_]\w*`)
	luaTopLevel = regexp.MustCompile(`(?m)^local (?:function (\w+)|([\w, ]+?)(?: =|$))`)
	luaAnywhere = regexp.MustCompile(`local function (\w+)|local ([\w, ]+)|for ([\w, ]+?) (?:in|=)|` +
		`function[^(\n]*\(([^)\n]*)\)`)
	luaParams   = regexp.MustCompile(`function[^(\n]*\(([^)\n]*)\)`)
	luaField    = regexp.MustCompile(`^ =[^=]`)
	luaKeywords = strings.Fields(`and break do else elseif end false for function if in local nil not or repeat return then
		true until while KEYS ARGV redis tonumber tostring type pairs ipairs pcall error unpack next rawset setmetatable
		math string table struct cmsgpack cjson bit`)
)

func stripLua(text string) string {
	return luaText.ReplaceAllStringFunc(text, func(s string) string {
		if strings.HasPrefix(s, "--") {
			return ""
		}
		return "''"
	})
}

// luaNames are the names in a file.
type luaNames struct {
	declares []string // for the files behind it
	binds    []string // anywhere in it
	uses     []luaUse
}

type luaUse struct {
	name string
	line int
}

// namesIn reads the names in a file.
func namesIn(text string) (n luaNames) {
	text = withNumbers(stripLua(text))
	n.declares = boundBy(luaTopLevel, text)
	n.binds = slices.Concat(boundBy(luaAnywhere, text), boundBy(luaParams, text))
	for _, at := range luaName.FindAllStringIndex(text, -1) {
		name, head, rest := text[at[0]:at[1]], text[:at[0]], text[at[1]:]
		if slices.Contains(luaKeywords, name) || strings.HasSuffix(head, ".") && !strings.HasSuffix(head, "..") {
			continue
		}
		if at[0] > 0 && head[at[0]-1] >= '0' && head[at[0]-1] <= '9' { // as of 1e9
			continue
		}
		key := strings.TrimRight(head, " \n")
		if luaField.MatchString(rest) && key != "" && strings.ContainsAny(key[len(key)-1:], "{,;") {
			continue
		}
		if strings.HasSuffix(head, ":") {
			continue
		}
		n.uses = append(n.uses, luaUse{name, strings.Count(head, "\n") + 1})
	}
	return n
}

func boundBy(pattern *regexp.Regexp, text string) (list []string) {
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		for _, names := range m[1:] {
			list = append(list, luaName.FindAllString(names, -1)...)
		}
	}
	return list
}

// unbound fails for each name in a file that neither it declares, anywhere, nor what stands before it.
func unbound(t *testing.T, file string, n luaNames, before map[string]bool) {
	t.Helper()
	for _, use := range n.uses {
		if !before[use.name] && !slices.Contains(n.binds, use.name) {
			t.Errorf("%s, line %d: %s is declared nowhere before it", file, use.line, use.name)
		}
	}
}
