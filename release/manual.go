package main

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/alecthomas/kong"

	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/cli"
)

// manualPages generates the manual pages from the command lines themselves: penstock.1 has the overview, and each
// command has a page, which includes its subcommands.
func (o options) manualPages() ([]file, error) {
	model, err := cli.Manual()
	if err != nil {
		return nil, err
	}
	servers, err := app.Manual()
	if err != nil {
		return nil, err
	}
	var pages []file
	add := func(name, text string) {
		pages = append(pages, file{name: name + ".1", mode: 0o644, content: []byte(text)})
	}
	var names []string
	for _, c := range visible(model.Node) {
		names = append(names, "penstock-"+c.Name)
	}
	for _, s := range servers {
		names = append(names, s.Name)
	}
	add("penstock", o.overview(model, names))
	for _, c := range visible(model.Node) {
		add("penstock-"+c.Name, o.commandPage(c))
	}
	for _, s := range servers {
		add(s.Name, o.serverPage(s))
	}
	return pages, nil
}

// visible returns the commands of a node that its help lists.
func visible(node *kong.Node) (found []*kong.Node) {
	for _, c := range node.Children {
		if !c.Hidden {
			found = append(found, c)
		}
	}
	return found
}

// page is a manual page under construction, in the man macros of roff.
type page struct {
	strings.Builder
	headed bool // the last line is a heading, which begins a paragraph too
}

// newPage begins a page with its name and a short description.
func (o options) newPage(name, about string) *page {
	p := &page{}
	p.line(".TH %s 1 %s %s %s", strings.ToUpper(quoted(name)), o.commit.time.Format("2006-01-02"),
		quoted("Penstock "+o.version), quoted("Penstock manual"))
	p.line(".nh\n.ad l") // words such as PENSTOCK_URL must not be hyphenated
	p.line(".SH NAME")
	p.line("%s \\- %s", escape(name), escape(phrase(about)))
	return p
}

func (p *page) line(format string, args ...any) {
	_, _ = fmt.Fprintf(p, format+"\n", args...)
	p.headed = strings.HasPrefix(format, ".SH") || strings.HasPrefix(format, ".SS")
}

// paragraph begins a paragraph.
func (p *page) paragraph() {
	if !p.headed {
		p.line(".PP")
	}
}

// quoted returns an argument of a macro.
func quoted(arg string) string { return `"` + strings.ReplaceAll(escape(arg), `"`, `\(dq`) + `"` }

// escape returns text that roff prints as it is.
func escape(text string) string {
	return strings.NewReplacer(`\`, `\e`, `-`, `\-`, `'`, `\(aq`, "`", "\\(ga", `^`, `\(ha`, `~`, `\(ti`).Replace(text)
}

// safe returns a line of text that does not begin with a macro.
func safe(text string) string {
	text = escape(text)
	if strings.HasPrefix(text, ".") {
		return `\&` + text
	}
	return text
}

// phrase turns the first sentence of a help text into the phrase that the NAME section expects.
func phrase(help string) string {
	text, _, _ := strings.Cut(strings.Join(strings.Fields(help), " "), ". ")
	text = strings.TrimSuffix(text, ".")
	if runes := []rune(text); len(runes) > 1 && unicode.IsUpper(runes[0]) && !unicode.IsUpper(runes[1]) {
		return strings.ToLower(string(runes[0])) + string(runes[1:])
	}
	return text
}

// indented matches lines of examples and tables, which keep their form.
var indented = regexp.MustCompile(`^(\s\s|\t)`)

// prose prints paragraphs. Indented lines are examples.
func (p *page) prose(text string) {
	example, fresh := false, true
	for line := range strings.Lines(strings.TrimSpace(text) + "\n") {
		line = strings.TrimRight(line, " \n")
		switch {
		case line == "" && !example:
			fresh = true
		case indented.MatchString(line) && !example:
			p.paragraph()
			p.line(".RS 4\n.EX")
			p.line("%s", safe(strings.TrimPrefix(line, "  ")))
			example = true
		case example && (line == "" || indented.MatchString(line)):
			p.line("%s", safe(strings.TrimPrefix(line, "  ")))
		default:
			if example {
				p.line(".EE\n.RE")
			}
			if fresh || example {
				p.paragraph()
			}
			example, fresh = false, false
			p.line("%s", safe(strings.TrimSpace(line)))
		}
	}
	if example {
		p.line(".EE\n.RE")
	}
}

// synopsis prints the usage of a command.
func (p *page) synopsis(node *kong.Node, name string) {
	words := []string{`\fB` + escape(name) + `\fR`}
	for _, f := range node.Flags {
		if f.Required {
			words = append(words, flagName(f))
		}
	}
	if len(node.Flags) > 0 {
		words = append(words, `[\fIflags\fR]`)
	}
	for _, a := range node.Positional {
		word := `\fI` + escape(strings.ToUpper(a.Name)) + `\fR`
		if a.IsCumulative() {
			word += " ..."
		}
		if !a.Required {
			word = "[" + word + "]"
		}
		words = append(words, word)
	}
	if len(node.Children) > 0 {
		words = append(words, `\fICOMMAND\fR`)
	}
	p.line("%s", strings.Join(words, " "))
}

// flagName returns a flag with its value, in bold and italics.
func flagName(f *kong.Flag) string {
	name := `\fB` + escape("--"+f.Name) + `\fR`
	if f.Tag.Negatable != "" {
		name = `\fB` + escape("--[no-]"+f.Name) + `\fR`
	}
	if !f.IsBool() && !f.IsCounter() {
		name += `=\fI` + escape(f.FormatPlaceHolder()) + `\fR`
	}
	return name
}

// arguments prints the arguments that have help.
func (p *page) arguments(node *kong.Node) {
	for _, a := range node.Positional {
		if a.Help != "" {
			p.line(".TP\n\\fI%s\\fR", escape(strings.ToUpper(a.Name)))
			p.help(a.Help)
		}
	}
}

// flags prints the visible flags. The text of each is that of --help.
func (p *page) flags(all []*kong.Flag) {
	for _, f := range all {
		if f.Hidden {
			continue
		}
		name := flagName(f)
		if f.Short != 0 {
			name = `\fB\-` + string(f.Short) + `\fR, ` + name
		}
		p.line(".TP\n%s", name)
		p.help(kong.DefaultHelpValueFormatter(f.Value))
	}
}

// help prints a short text below an item.
func (p *page) help(text string) {
	if text = strings.Join(strings.Fields(text), " "); text == "" {
		text = "See above."
	}
	p.line("%s", safe(text))
}
