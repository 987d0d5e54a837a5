package queuecmd

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/wire"
)

// text draws a picture with a maximum number of rows; 0 is no limit. Without a width, lines have any length.
func (p *picture) text(s *command.Screen, rows int) string {
	shown := p.Queues
	if rows > 0 && len(shown) > rows {
		shown = shown[:rows]
	}
	lines := p.head(s)
	lines = append(lines, p.rows(s, shown, -1)...)
	if more := len(p.Queues) - len(shown); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "\n") + "\n"
}

// headLines is the number of lines that head returns.
const headLines = 3

// head returns the lines above the queues.
func (p *picture) head(s *command.Screen) []string {
	lines := []string{show.Cut(p.At.Format("15:04:05")+"  "+show.Text(p.Server), s.Width), p.summary(), ""}
	if s.Width > 0 {
		copy(lines[1:], append(show.Wrapped(p.summary(), s.Width), ""))
		for n := range lines[1:] {
			lines[1+n] = show.Cut(lines[1+n], s.Width)
		}
	}
	if p.Error != "" {
		lines[2] = s.Styled(show.Cut(p.failure(), s.Width), styleWrong)
	}
	return lines
}

// failure says why the last refresh failed.
func (p *picture) failure() string {
	return fmt.Sprintf("no answer for %s: %s", show.Duration(p.At.Sub(p.seen)), show.Text(p.Error))
}

// rows returns the heads of the columns and a line for each queue, in the color of its trouble. If cursor is not
// negative, the queue at that index is marked.
func (p *picture) rows(s *command.Screen, shown []flow, cursor int) []string {
	if len(p.Queues) == 0 {
		return []string{show.Cut(noQueues, s.Width)}
	}
	mark := map[bool]string{}
	width := s.Width
	if cursor >= 0 {
		mark, width = map[bool]string{false: "  ", true: "> "}, width-2
	}
	lines := strings.Split(strings.TrimSuffix(columns(shown, p.At, width), "\n"), "\n")
	for n := range lines {
		style := styleHead
		if n > 0 {
			style = verdictStyle(shown[n-1].Verdict)
		}
		if n-1 == cursor && n > 0 {
			style = strings.TrimSuffix(styleSelected+";"+style, ";")
		}
		lines[n] = s.Styled(mark[n > 0 && n-1 == cursor]+show.Cut(lines[n], width), style)
	}
	return lines
}

func verdictStyle(v wire.Verdict) string {
	switch v {
	case wire.Wrong:
		return styleWrong
	case wire.Warning:
		return styleWarning
	}
	return ""
}

// summary adds up all queues.
func (p *picture) summary() string {
	var size, deferred, wrong, warned int64
	var out float64
	var sum speeds
	for i := range p.Queues {
		f := &p.Queues[i]
		size, deferred, out = size+f.Size, deferred+f.Deferred, out+f.Out
		switch f.Verdict {
		case wire.Wrong:
			wrong++
		case wire.Warning:
			warned++
		}
		if f.speeds != nil {
			sum.In, sum.Refused, sum.Deferred, sum.Lost = sum.In+f.In, sum.Refused+f.Refused, sum.Deferred+
				f.speeds.Deferred, sum.Lost+f.Lost
		}
	}
	text := show.Count(int64(len(p.Queues)), "queue")
	if wrong+warned > 0 {
		text += fmt.Sprintf(" (%d wrong, %s)", wrong, show.Count(warned, "warning"))
	}
	text += fmt.Sprintf(
		": %d jobs, %d deferred; %s; per second %s out", size, deferred, drainersText(&p.Drainers, p.At), decimal(out),
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

// headCalls is the head of a column that is left out if no queue is proxied.
const headCalls = "CALLS"

// columnsOf returns all columns. name is the maximum width of names, bar the width of bars, and now the time of the
// picture.
func columnsOf(name, bar int, now time.Time) []column {
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
		{"FILL", false, 5, func(f *flow) string { return barOf(f.Fullness, bar) }},
		{"SIZE", true, 0, func(f *flow) string { return fmt.Sprintf("%d/%d", f.Size, f.Capacity) }},
		{"DELAY", true, 1, func(f *flow) string { return delayText(f.Outlook) }},
		{"FINISH", true, 2, func(f *flow) string { return finishCell(f, now) }},
		{"RATE", true, 10, func(f *flow) string { return f.Rate }},
		{"IN/S", true, 4, speed(func(s *speeds) float64 { return s.In })},
		{"OUT/S", true, 3, func(f *flow) string { return decimal(f.Out) }},
		{"REFUSED/S", true, 6, speed(func(s *speeds) float64 { return s.Refused })},
		{"DEFERRED/S", true, 8, speed(func(s *speeds) float64 { return s.Deferred })},
		{"DEFERRED", true, 9, func(f *flow) string { return show.Int(f.Deferred) }},
		{"LOST/S", true, 7, speed(func(s *speeds) float64 { return s.Lost })},
		{headCalls, false, 5, func(f *flow) string { return callsText(f.Calls, "") }},
		{"STATE", false, 0, func(f *flow) string { return f.State }},
	}
}

// columnsFor returns the columns that apply to the shown queues.
func columnsFor(shown []flow, name, bar int, now time.Time) []column {
	all := columnsOf(name, bar, now)
	if slices.ContainsFunc(shown, func(f flow) bool { return f.Calls != nil }) {
		return all
	}
	return slices.DeleteFunc(all, func(c column) bool { return c.head == headCalls })
}

// delayText returns how long a job that is appended now would wait: "~" before an estimate, a dash while unknown.
func delayText(o *wire.Outlook) string {
	switch {
	case o == nil:
		return "-"
	case o.DelaySeconds == nil:
		return "never"
	}
	return roughly(o) + show.Duration(time.Duration(*o.DelaySeconds*float64(time.Second)))
}

// finishCell returns when the last job leaves, empty without jobs.
func finishCell(f *flow, now time.Time) string {
	switch o := f.Outlook; {
	case o == nil:
		return "-"
	case f.Size+f.Deferred == 0:
		return ""
	case o.FinishAt == nil:
		return "never"
	default:
		return roughly(o) + show.Clock(o.FinishAt, now)
	}
}

func roughly(o *wire.Outlook) string {
	if o.Exact {
		return ""
	}
	return "~"
}

// columns returns the table. To fit into width it first shortens the bars, then drops columns. The caller cuts long
// states.
func columns(shown []flow, now time.Time, width int) string {
	name, bar := 0, barWidth
	if width > 0 {
		name = max(12, width/4)
	}
	all := columnsFor(shown, name, bar, now)
	for over := tooWide(all, shown, width); over > 0; over = tooWide(all, shown, width) {
		if bar > barLeast {
			bar = max(barLeast, bar-over)
			all = columnsFor(shown, name, bar, now)
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
	const beginning = 20 // of a state: "quota until 21:00 CE"
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
