package command

import (
	"fmt"
	"io"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/schollz/progressbar/v3"

	"github.com/penstock/penstock/internal/cli/show"
)

// Bytes is the unit of a progress that is shown as kB and MB.
const Bytes = "bytes"

// LineInterval is the time between two lines of progress where there is no terminal.
const LineInterval = 5 * time.Second

// rateWindow is the time over which the rate is measured. The time left is estimated from the present rate. At the
// beginning the rate may have been higher, while a queue still had room.
const rateWindow = 10 * time.Second

// Progress shows how far a long command is: a bar on a terminal, elsewhere a line every few seconds.
type Progress struct {
	// Note returns more text to show after the rate. short means that there is little room, beside a bar.
	Note func(short bool) string
	// Interval is the time between two lines where there is no terminal.
	Interval time.Duration

	w     io.Writer
	what  string // the activity, such as "importing"
	unit  string
	total int64                    // -1 if unknown
	bar   *progressbar.ProgressBar // nil if w is not a terminal
	next  time.Time                // of the next line
	seen  []progress               // over the rate window, the oldest first
}

// progress is how much was done at an instant.
type progress struct {
	at   time.Time
	done int64
}

// NewProgress returns the progress of an activity, such as "importing", that counts in a unit. A total of -1 is
// unknown.
func NewProgress(w io.Writer, what, unit string, total int64) *Progress {
	p := &Progress{
		w: w, what: what, unit: unit, total: total, Interval: LineInterval, seen: []progress{{time.Now(), 0}},
	}
	if _, ok := Width(w); ok {
		p.bar = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(w),
			progressbar.OptionSetDescription(what),
			progressbar.OptionShowCount(),
			progressbar.OptionShowBytes(unit == Bytes),
			progressbar.OptionSetPredictTime(false), // it would use the rate since the beginning
			progressbar.OptionSetElapsedTime(true),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionUseANSICodes(true),
			progressbar.OptionClearOnFinish(),
			progressbar.OptionFullWidth(),
		)
	}
	return p
}

// SetTotal changes the total; -1 is unknown.
func (p *Progress) SetTotal(total int64) {
	p.total = total
	if p.bar != nil {
		p.bar.ChangeMax64(total)
	}
}

// Show shows that so much is done.
func (p *Progress) Show(done int64) {
	now := time.Now()
	rate := p.rate(now, done)
	if p.bar != nil {
		text := p.what + " " + p.pace(rate, done) + p.note(true)
		if width, ok := Width(p.w); ok { // the counts follow, and the bar if there is room
			text = show.Cut(text, max(20, width-27))
		}
		p.bar.Describe(text)
		_ = p.bar.Set64(done) // fails only if drawing fails
		return
	}
	if p.next.IsZero() {
		p.next = p.seen[0].at.Add(p.Interval)
	}
	if now.Before(p.next) {
		return
	}
	p.next = now.Add(p.Interval)
	amount := p.amount(done)
	if p.total > 0 {
		amount += " of " + p.amount(p.total)
	}
	if p.unit != Bytes {
		amount += " " + p.unit
	}
	_, _ = fmt.Fprintf(p.w, "%s %s, %s%s\n", p.what, amount, p.pace(rate, done), p.note(false))
}

func (p *Progress) amount(n int64) string {
	if p.unit == Bytes {
		return humanize.Bytes(uint64(n))
	}
	return show.Int(n)
}

func (p *Progress) note(short bool) string {
	if p.Note == nil {
		return ""
	}
	return p.Note(short)
}

// rate returns how many units were done per second lately.
func (p *Progress) rate(now time.Time, done int64) float64 {
	for len(p.seen) > 1 && now.Sub(p.seen[1].at) >= rateWindow {
		p.seen = p.seen[1:]
	}
	first := p.seen[0]
	if last := p.seen[len(p.seen)-1].at; now.Sub(last) >= time.Second {
		p.seen = append(p.seen, progress{now, done})
	}
	if took := now.Sub(first.at).Seconds(); took > 0 {
		return float64(done-first.done) / took
	}
	return 0
}

// pace returns the rate and the time left.
func (p *Progress) pace(rate float64, done int64) string {
	text := fmt.Sprintf("%.3g/s", rate)
	if p.unit == Bytes {
		text = humanize.Bytes(uint64(max(0, rate))) + "/s"
	}
	left := p.total - done
	switch {
	case p.total <= 0 || left <= 0:
		return text
	case rate <= 0:
		return text + ", none lately"
	}
	return text + ", about " + show.Duration(time.Duration(float64(left)/rate*float64(time.Second))) + " left"
}

// Interrupt makes room for a line of other text.
func (p *Progress) Interrupt() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

// End removes the bar.
func (p *Progress) End() { p.Interrupt() }
