package command

import (
	"strings"
	"unicode/utf8"

	"github.com/penstock/penstock/internal/cli/show"
)

// Table is a header and rows, aligned in columns.
type Table struct {
	heads []string
	right []bool
	rows  [][]string
}

// NewTable returns a table with these columns. A head that begins with ">" aligns its column to the right.
func NewTable(heads ...string) *Table {
	t := &Table{}
	for _, head := range heads {
		t.Column(head)
	}
	return t
}

// Column adds a column.
func (t *Table) Column(head string) {
	head, right := strings.CutPrefix(head, ">")
	t.heads, t.right = append(t.heads, head), append(t.right, right)
}

// Row adds a row.
func (t *Table) Row(cells ...string) { t.rows = append(t.rows, cells) }

// String returns the table with two spaces between columns. Cells are escaped.
func (t *Table) String() string {
	rows := append([][]string{t.heads}, t.rows...)
	width := make([]int, len(t.heads))
	for _, row := range rows {
		for i := range row {
			row[i] = show.Text(row[i])
			width[i] = max(width[i], utf8.RuneCountInString(row[i]))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
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

// Facts returns pairs of a name and a value, one pair per line. Pairs with an empty value are left out, and values are
// escaped.
func Facts(pairs ...string) string { return FactsIn(0, pairs...) }

// FactsIn is Facts with values wrapped to a width; 0 is no limit.
func FactsIn(width int, pairs ...string) string {
	margin := 0
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			margin = max(margin, utf8.RuneCountInString(pairs[i])+2)
		}
	}
	var b strings.Builder
	for i := 0; i+1 < len(pairs); i += 2 {
		value := show.Text(pairs[i+1])
		lines := []string{value}
		if width > 0 {
			lines = show.Wrapped(value, max(20, width-margin))
		}
		if value == "" {
			continue
		}
		head := pairs[i]
		for _, line := range lines {
			b.WriteString(head + strings.Repeat(" ", margin-utf8.RuneCountInString(head)) + line + "\n")
			head = ""
		}
	}
	return b.String()
}
