package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/cli"
)

// Every command has a page, and two formatters have nothing to say about any.
func TestManualPages(t *testing.T) {
	pages, err := options{version: "v9.8.7", commit: commit{time: time.Unix(1_700_000_000, 0).UTC()}}.manualPages()
	if err != nil {
		t.Fatal(err)
	}
	model, err := cli.Manual()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	texts := map[string]string{}
	for _, p := range pages {
		texts[p.name] = string(p.content)
		path := filepath.Join(dir, p.name)
		if err := os.WriteFile(path, p.content, 0o600); err != nil {
			t.Fatal(err)
		}
		if out := tool(t, "mandoc", "-T", "lint", "-W", "warning", path); out != "" {
			t.Errorf("mandoc: %s", out)
		}
		if out := tool(t, "groff", "-man", "-ww", "-z", "-K", "utf8", "-T", "utf8", path); out != "" {
			t.Errorf("groff: %s", out)
		}
	}
	for _, c := range visible(model.Node) {
		page := texts["penstock-"+c.Name+".1"]
		for _, leaf := range leaves(c) {
			mustContain(t, "penstock-"+c.Name, page, `\fB`+escape(commandName(leaf))+`\fR`)
			for _, f := range leaf.Flags {
				if !f.Hidden && !strings.Contains(page, flagName(f)+"\n") {
					t.Errorf("penstock-%s lacks --%s", c.Name, f.Name)
				}
			}
		}
	}
	read := tool(t, "mandoc", "-T", "utf8", "-O", "width=100", filepath.Join(dir, "penstock-queue.1"))
	read = stripOverstrikes(read)
	mustContain(t, "penstock-queue(1)", read, "penstock-queue - manage queues", "penstock queue set", "2023-11-14",
		"Penstock v9.8.7", "SEE ALSO")
	mustContain(t, "ingress.1", texts["ingress.1"], `\fB\-\-redis\fR=\fIURL\fR`, "($PENSTOCK_REDIS)")
}

// stripOverstrikes removes the characters that terminals overstrike for bold and underlined text.
func stripOverstrikes(text string) string {
	var out []rune
	for _, c := range text {
		if c == '\b' && len(out) > 0 {
			out = out[:len(out)-1]
			continue
		}
		out = append(out, c)
	}
	return string(out)
}

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		`a\b`: `a\eb`, "--x": `\-\-x`, ".TH": `\&.TH`, "'br": `\(aqbr`, "a.b": "a.b", "`~^": `\(ga\(ti\(ha`,
	} {
		if got := safe(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
	if got := phrase("Show a queue: settings. More.\nLess."); got != "show a queue: settings" {
		t.Error(got)
	}
	if got := phrase("SMS of the day."); got != "SMS of the day" {
		t.Error(got)
	}
}
