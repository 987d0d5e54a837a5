package queuecmd

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/show"
)

// otherLines is the maximum number of lines that show no queue: three above, the heads of the columns, and the number
// of queues that are not shown.
const otherLines = 5

// text draws a picture with a maximum number of rows and width of lines; 0 is no limit.
func (p *picture) text(width, rows int) string {
	shown := p.Queues
	if rows > 0 && len(shown) > rows {
		shown = shown[:rows]
	}
	var b strings.Builder
	line := func(text string) { b.WriteString(show.Cut(text, width) + "\n") }
	line(p.At.Format("15:04:05") + "  " + show.Text(p.Server))
	line(p.summary())
	if p.Error != "" {
		line(fmt.Sprintf("no answer for %s: %s", show.Duration(p.At.Sub(p.seen)), show.Text(p.Error)))
	} else {
		line("")
	}
	if len(p.Queues) == 0 {
		line(noQueues)
	} else {
		for row := range strings.Lines(columns(shown, width)) {
			line(strings.TrimSuffix(row, "\n"))
		}
	}
	if more := len(p.Queues) - len(shown); more > 0 {
		line(fmt.Sprintf("and %d more", more))
	}
	return b.String()
}

// summary adds up all queues.
func (p *picture) summary() string {
	var size, deferred int64
	var out float64
	var sum speeds
	for i := range p.Queues {
		f := &p.Queues[i]
		size, deferred, out = size+f.Size, deferred+f.Deferred, out+f.Out
		if f.speeds != nil {
			sum.In, sum.Refused, sum.Deferred, sum.Lost = sum.In+f.In, sum.Refused+f.Refused, sum.Deferred+
				f.speeds.Deferred, sum.Lost+f.Lost
		}
	}
	text := fmt.Sprintf(
		"%s: %d jobs, %d deferred; %s; per second %s out", show.Count(int64(len(p.Queues)), "queue"), size, deferred,
		drainersText(&p.Drainers, p.At), decimal(out),
	)
	if p.Seconds > 0 {
		text += fmt.Sprintf(
			", %s in, %s refused, %s deferred, %s lost", decimal(sum.In), decimal(sum.Refused), decimal(sum.Deferred),
			decimal(sum.Lost),
		)
	}
	return text
}

// Widths of a bar with plenty of room, and with little.
const barWidth, barLeast = 20, 10

// column is a column of the table. Columns with a higher spare are dropped first, and those with 0 never.
type column struct {
	head  string
	right bool
	spare int
	cell  func(f *flow) string
}

// columnsOf returns all columns. name is the maximum width of names, bar the width of bars.
func columnsOf(name, bar int) []column {
	speed := func(of func(s *speeds) float64) func(*flow) string {
		return func(f *flow) string {
			if f.speeds == nil {
				return "-"
			}
			return decimal(of(f.speeds))
		}
	}
	return []column{
		{"NAME", false, 0, func(f *flow) string { return show.Cut(show.Text(f.Name), name) }},
		{"FILL", false, 3, func(f *flow) string { return barOf(f.Fullness, bar) }},
		{"SIZE", true, 0, func(f *flow) string { return fmt.Sprintf("%d/%d", f.Size, f.Capacity) }},
		{"RATE", true, 8, func(f *flow) string { return f.Rate }},
		{"IN/S", true, 2, speed(func(s *speeds) float64 { return s.In })},
		{"OUT/S", true, 1, func(f *flow) string { return decimal(f.Out) }},
		{"REFUSED/S", true, 4, speed(func(s *speeds) float64 { return s.Refused })},
		{"DEFERRED/S", true, 6, speed(func(s *speeds) float64 { return s.Deferred })},
		{"DEFERRED", true, 7, func(f *flow) string { return show.Int(f.Deferred) }},
		{"LOST/S", true, 5, speed(func(s *speeds) float64 { return s.Lost })},
		{"STATE", false, 0, func(f *flow) string { return f.State }},
	}
}

// columns returns the table. To fit into width it first shortens the bars, then drops columns. The caller cuts long
// states.
func columns(shown []flow, width int) string {
	name, bar := 0, barWidth
	if width > 0 {
		name = max(12, width/4)
	}
	all := columnsOf(name, bar)
	for over := tooWide(all, shown, width); over > 0; over = tooWide(all, shown, width) {
		if bar > barLeast {
			bar = max(barLeast, bar-over)
			all = columnsOf(name, bar)
			continue
		}
		least := 0
		for i := range all {
			if all[i].spare > all[least].spare {
				least = i
			}
		}
		if all[least].spare == 0 {
			break
		}
		all = slices.Delete(all, least, least+1)
	}
	t := command.NewTable()
	for _, c := range all {
		head := c.head
		if c.right {
			head = ">" + head
		}
		t.Column(head)
	}
	for i := range shown {
		cells := make([]string, 0, len(all))
		for _, c := range all {
			cells = append(cells, c.cell(&shown[i]))
		}
		t.Row(cells...)
	}
	return t.String()
}

// tooWide returns by how many characters the columns exceed the width.
func tooWide(all []column, shown []flow, width int) int {
	if width == 0 {
		return 0
	}
	const beginning = 8 // of a state: "paused: "
	total := 2 * (len(all) - 1)
	for _, c := range all {
		widest := utf8.RuneCountInString(c.head)
		for i := range shown {
			widest = max(widest, utf8.RuneCountInString(c.cell(&shown[i])))
		}
		if c.head == "STATE" {
			widest = min(widest, beginning)
		}
		total += widest
	}
	return total - width
}

// barOf returns a bar of a width with its percentage. Only an empty part looks empty, and only a full one
// looks full.
func barOf(part float64, width int) string {
	n := int(math.Round(part * float64(width)))
	percent := math.Round(100 * part)
	switch {
	case part <= 0:
		n, percent = 0, 0
	case part >= 1:
		n = width
	default:
		n, percent = min(max(n, 1), width-1), min(max(percent, 1), 99)
	}
	return fmt.Sprintf("[%s%s] %3.0f%%", strings.Repeat("#", n), strings.Repeat(".", width-n), percent)
}

// decimal returns a number with one decimal place.
func decimal(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

// overdraw returns a text that draws over the screen from its upper left corner.
func overdraw(text string) string {
	text = strings.TrimSuffix(text, "\n") // a line end on the last line would scroll
	return "\x1b[H" + strings.ReplaceAll(text, "\n", "\x1b[K\r\n") + "\x1b[K\x1b[J"
}
