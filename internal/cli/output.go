package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/penstock/penstock/internal/cli/show"
)

// output is the -o flag of everything that lists.
type output struct {
	Output string `help:"How to print: ${enum}." short:"o" enum:"table,json" default:"table" placeholder:"FORMAT"`
}

func (o output) json() bool { return o.Output == "json" }

// printJSON prints v, indented, with a line end.
func printJSON(w io.Writer, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("write the answer as JSON: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s\n", show.JSON(text))
	return err
}

// printLine prints v as JSON in one line, as streams are printed.
func printLine(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write the answer as JSON: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s\n", show.JSON(text))
	return err
}

// table is rows of cells under a header, aligned. Numbers stand to the right.
type table struct {
	header []string
	right  map[int]bool
	rows   [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// String aligns the columns two spaces apart.
func (t *table) String() string {
	for _, row := range t.rows {
		for i := range row {
			row[i] = show.Text(row[i])
		}
	}
	width := make([]int, len(t.header))
	for _, row := range append([][]string{t.header}, t.rows...) {
		for i, cell := range row {
			width[i] = max(width[i], len([]rune(cell)))
		}
	}
	var b strings.Builder
	for _, row := range append([][]string{t.header}, t.rows...) {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-len([]rune(cell)))
			if t.right[i] {
				line.WriteString(pad + cell + "  ")
			} else {
				line.WriteString(cell + pad + "  ")
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

// facts prints names and values, one pair a line.
func facts(w io.Writer, pairs ...string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			_, _ = fmt.Fprintf(tw, "%s\t%s\n", pairs[i], show.Text(pairs[i+1]))
		}
	}
	return tw.Flush()
}

// age is how long ago t was, in at most two units; empty if it never was.
func age(now time.Time, t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return short(now.Sub(*t))
}

// short is a duration for people: 3d4h, 2h5m, 1m30s, 4.2s, 120ms.
func short(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

// plain is a text that others wrote, as it may stand in a line.
func plain(s string) string { return show.Text(s) }
