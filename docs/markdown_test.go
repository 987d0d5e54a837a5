package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

const root = ".."

// page is a Markdown file of the repository.
type page struct {
	name   string // from the root of the repository
	lines  []string
	blocks []block
	links  []link
	spans  []span          // `inline code`
	heads  map[string]bool // headings, as links name them
}

// block is a fenced block of code.
type block struct {
	line   int    // of the fence, from 1
	lang   string // the first word behind the fence
	about  string // the second, if there is one
	code   string
	notRun string // the reason in a comment "not run: ..." on the line before the fence
}

type link struct {
	line   int
	target string
}

type span struct {
	line int
	code string
}

var (
	fence   = regexp.MustCompile("^( *)```(\\S*) ?(.*)$")
	notRun  = regexp.MustCompile(`^ *<!-- not run: (.+) -->$`)
	inLine  = regexp.MustCompile("`([^`]+)`")
	linked  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`^#{1,6} (.+)$`)
	slugged = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// read reads a page.
func read(t testing.TB, name string) *page {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return parse(name, string(text))
}

func parse(name, text string) *page {
	p := &page{name: name, lines: strings.Split(strings.TrimSuffix(text, "\n"), "\n"), heads: map[string]bool{}}
	for i := 0; i < len(p.lines); i++ {
		line := p.lines[i]
		if open := fence.FindStringSubmatch(line); open != nil {
			b := block{line: i + 1, lang: open[2], about: open[3]}
			if i > 0 {
				if why := notRun.FindStringSubmatch(p.lines[i-1]); why != nil {
					b.notRun = why[1]
				}
			}
			for i++; i < len(p.lines) && strings.TrimSpace(p.lines[i]) != "```"; i++ {
				b.code += strings.TrimPrefix(p.lines[i], open[1]) + "\n"
			}
			p.blocks = append(p.blocks, b)
			continue
		}
		if h := heading.FindStringSubmatch(line); h != nil {
			p.heads[p.slug(h[1])] = true
		}
		for _, m := range linked.FindAllStringSubmatch(line, -1) {
			p.links = append(p.links, link{i + 1, m[1]})
		}
		for _, m := range inLine.FindAllStringSubmatch(line, -1) {
			p.spans = append(p.spans, span{i + 1, m[1]})
		}
	}
	return p
}

// slug returns the anchor of a heading. Repeated headings get numbers.
func (p *page) slug(text string) string {
	text = linked.ReplaceAllString(text, "")
	s := strings.ReplaceAll(slugged.ReplaceAllString(strings.ToLower(strings.TrimSpace(text)), ""), " ", "-")
	for n, plain := 1, s; p.heads[s]; n++ {
		s = fmt.Sprintf("%s-%d", plain, n)
	}
	return s
}

// words counts the words with a letter or digit, so without the marks of tables and code.
func (p *page) words() (n int) {
	for _, field := range strings.Fields(strings.Join(p.lines, "\n")) {
		if strings.ContainsFunc(field, func(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) }) {
			n++
		}
	}
	return n
}

// at formats a position on the page for messages.
func (p *page) at(line int) string { return fmt.Sprintf("%s:%d", p.name, line) }

// beside converts a path relative to the page to a path relative to the root.
func (p *page) beside(name string) string { return path.Join(path.Dir(p.name), name) }

// pages returns all Markdown files of the repository.
func pages(t *testing.T) (names []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != root && (strings.HasPrefix(d.Name(), ".") ||
			slices.Contains([]string{"bin", "data", "dist", "node_modules"}, d.Name())):
			return fs.SkipDir
		case strings.HasSuffix(name, ".md"):
			names = append(names, filepath.ToSlash(strings.TrimPrefix(name, root+string(filepath.Separator))))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func exists(name string) bool {
	_, err := os.Stat(filepath.Join(root, name))
	return err == nil
}
