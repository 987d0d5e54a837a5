package cli

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// Manual has its own options for the parser, so every flag must have the text that --help prints.
func TestManualSaysWhatHelpSays(t *testing.T) {
	model, err := Manual()
	if err != nil {
		t.Fatal(err)
	}
	leaves := model.Leaves(true)
	if len(leaves) < 50 {
		t.Fatalf("the manual has %d commands", len(leaves))
	}
	for _, leaf := range leaves {
		path := strings.Fields(strings.TrimPrefix(leaf.Path(), "penstock "))
		r := expect(t, ExitDone, "Usage: penstock ", "", append(path, "--help")...)
		shown := squeezed(r.out)
		for _, group := range leaf.AllFlags(true) {
			for _, f := range group {
				if text := squeezed(kong.DefaultHelpValueFormatter(f.Value)); !strings.Contains(shown, text) {
					t.Errorf("%s --%s: the manual says %q, and --help does not", leaf.Path(), f.Name, text)
				}
			}
		}
	}
}

// squeezed returns a text without spaces and line breaks, which depend on the width of the terminal.
func squeezed(text string) string { return strings.Join(strings.Fields(text), "") }
