package command

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/penstock/penstock/internal/cli/show"
)

// Output is the -o flag.
type Output struct {
	Format string `name:"output" help:"Format: ${enum}." short:"o" enum:"table,json" default:"table" placeholder:"FORMAT"`
}

// JSON reports whether the output is JSON.
func (o Output) JSON() bool { return o.Format == "json" }

// Print prints v as JSON, or the text for people.
func (o Output) Print(r *Run, v any, text func() string) error {
	if o.JSON() {
		return PrintJSON(r.Out, v)
	}
	_, err := io.WriteString(r.Out, text())
	return err
}

// Printf prints v as JSON, or a formatted text.
func (o Output) Printf(r *Run, v any, format string, args ...any) error {
	return o.Print(r, v, func() string { return fmt.Sprintf(format, args...) })
}

// List prints items as a JSON array, or as a table with one row per item. Without items it prints none instead, unless
// none is empty.
func List[T any](r *Run, o Output, items []T, none string, t *Table, row func(*T) []string) error {
	if items == nil {
		items = []T{}
	}
	return o.Print(r, items, func() string {
		if len(items) == 0 && none != "" {
			return none
		}
		for i := range items {
			t.Row(row(&items[i])...)
		}
		return t.String()
	})
}

// PrintJSON prints v as indented JSON.
func PrintJSON(w io.Writer, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	return printText(w, text, err)
}

// PrintLine prints v as one line of JSON, for streams.
func PrintLine(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	return printText(w, text, err)
}

func printText(w io.Writer, text []byte, err error) error {
	if err != nil {
		return fmt.Errorf("encode the output as JSON: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s\n", show.JSON(text))
	return err
}
