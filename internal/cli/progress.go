package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/penstock/penstock/internal/push"
)

// progress shows how far a push, an export or an import is: a bar with rate and time left on a
// terminal, a line now and then elsewhere.
type progress struct {
	w       io.Writer
	what    string // is being done
	total   int
	bar     *progressbar.ProgressBar // nil when w is no terminal
	started time.Time
	next    time.Time // of the next plain line
}

// plainEvery is how often a push that nobody watches says how far it is.
const plainEvery = 5 * time.Second

func newProgress(w io.Writer, total int) *progress {
	p := &progress{w: w, what: "pushing", total: total, started: time.Now()}
	p.next = p.started.Add(plainEvery)
	if _, ok := terminal(w); ok {
		p.bar = progressbar.NewOptions(total,
			progressbar.OptionSetWriter(w),
			progressbar.OptionShowCount(),
			progressbar.OptionShowIts(),
			progressbar.OptionSetItsString("jobs"),
			progressbar.OptionSetPredictTime(true),
			progressbar.OptionSetElapsedTime(true),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionUseANSICodes(true),
			progressbar.OptionClearOnFinish(),
			progressbar.OptionFullWidth(),
		)
	}
	return p
}

func (p *progress) show(n push.Count) {
	done := n.Read - n.Undecided
	if p.bar != nil {
		what := p.what
		if n.Undecided > 0 {
			what = fmt.Sprintf("%d wait for room", n.Undecided)
		}
		if n.Deferred > 0 {
			what += fmt.Sprintf(", %d deferred", n.Deferred)
		}
		p.bar.Describe(what)
		_ = p.bar.Set(done) // it fails only when drawing does
		return
	}
	now := time.Now()
	if now.Before(p.next) {
		return
	}
	p.next = now.Add(plainEvery)
	rate := float64(done) / now.Sub(p.started).Seconds()
	line := fmt.Sprintf("%d jobs, %.0f/s", done, rate)
	if p.total > 0 && rate > 0 {
		left := time.Duration(float64(p.total-done) / rate * float64(time.Second))
		line = fmt.Sprintf("%d of %d jobs, %.0f/s, about %s left", done, p.total, rate, short(left))
	}
	if n.Deferred > 0 {
		line += fmt.Sprintf(", %d deferred", n.Deferred)
	}
	if n.Undecided > 0 {
		line += fmt.Sprintf(", %d wait for room", n.Undecided)
	}
	_, _ = fmt.Fprintln(p.w, line)
}

// interrupt makes room for a line of text.
func (p *progress) interrupt() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

func (p *progress) end(n push.Count) {
	if p.bar != nil {
		_ = p.bar.Set(n.Read - n.Undecided)
		_ = p.bar.Clear()
	}
}
