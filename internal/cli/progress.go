package cli

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/penstock/penstock/internal/cli/push"
)

// progress shows how far a push, an export, an import or a check is: a bar with rate and time left on a
// terminal, a line now and then elsewhere.
type progress struct {
	w     io.Writer
	what  string                   // is being done
	unit  string                   // that is counted
	total int                      // -1 is unknown
	bar   *progressbar.ProgressBar // nil when w is no terminal
	next  time.Time                // of the next plain line
	now   func() time.Time

	// state says what the queue does that there is no room in, and why; nil says nothing. It is asked now and then.
	state func() string
	said  string    // by state
	asked time.Time // when

	seen []progressAt // of the last while, the oldest first
}

// progressAt is how much was done at an instant.
type progressAt struct {
	at   time.Time
	done int
}

const (
	// plainEvery is how often a long run that nobody watches says how far it is.
	plainEvery = 5 * time.Second
	// progressEvery is plainEvery of a progress: a push may wait for hours.
	progressEvery = 2 * plainEvery
	// rateOver is over which time its rate is measured: the time left is that at the pace of now, and not of the
	// beginning, when there was room.
	rateOver = 10 * time.Second
)

func newProgress(w io.Writer, total int) *progress {
	p := &progress{w: w, what: "pushing", unit: "jobs", total: total, now: time.Now}
	p.begin()
	if _, ok := terminal(w); ok {
		p.bar = progressbar.NewOptions(total,
			progressbar.OptionSetWriter(w),
			progressbar.OptionShowCount(),
			progressbar.OptionSetPredictTime(false), // its own would be by the pace since the beginning
			progressbar.OptionSetElapsedTime(true),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionUseANSICodes(true),
			progressbar.OptionClearOnFinish(),
			progressbar.OptionFullWidth(),
		)
	}
	return p
}

func (p *progress) begin() {
	now := p.now()
	p.next, p.seen = now.Add(progressEvery), []progressAt{{now, 0}}
}

// rate is how many a second were done lately.
func (p *progress) rate(done int) float64 {
	now := p.now()
	for len(p.seen) > 1 && now.Sub(p.seen[1].at) >= rateOver {
		p.seen = p.seen[1:]
	}
	first := p.seen[0]
	if last := p.seen[len(p.seen)-1].at; now.Sub(last) >= time.Second {
		p.seen = append(p.seen, progressAt{now, done})
	}
	if took := now.Sub(first.at).Seconds(); took > 0 {
		return float64(done-first.done) / took
	}
	return 0
}

// pace says how fast it goes, and how long it will take.
func (p *progress) pace(done int) string {
	rate := p.rate(done)
	text := fmt.Sprintf("%.3g/s", rate)
	if left := p.total - done; p.total > 0 && left > 0 {
		if rate == 0 {
			return text + ", none lately"
		}
		text += ", about " + short(time.Duration(float64(left)/rate*float64(time.Second))) + " left"
	}
	return text
}

// waits says why lines wait, if they do.
func (p *progress) waits(n push.Count) string {
	if n.Undecided == 0 || n.Waits == "" && n.Refusals == 0 {
		return ""
	}
	text := fmt.Sprintf("%d wait for room", n.Undecided)
	if n.Waits != "" {
		text = fmt.Sprintf("%d wait, the next for %s: %s", n.Undecided, short(n.Until.Sub(p.now())), plain(n.Waits))
	}
	if p.ask(n); p.said != "" {
		text += "; the queue: " + p.said
	}
	return text
}

// ask asks what the queue does, now and then, while there is no room in it.
func (p *progress) ask(n push.Count) {
	if p.state != nil && n.Refusals > 0 && p.now().Sub(p.asked) >= progressEvery/2 {
		p.said, p.asked = p.state(), p.now()
	}
}

func (p *progress) show(n push.Count) {
	done := n.Read - n.Undecided
	more := ""
	if n.Deferred > 0 {
		more = fmt.Sprintf(", %d deferred", n.Deferred)
	}
	if p.bar != nil {
		text := p.what + " " + p.pace(done) + more
		if n.Undecided > 0 {
			p.ask(n)
			text = fmt.Sprintf("%s%s; %d wait: %s", p.pace(done), more, n.Undecided, cmp.Or(p.said, plain(n.Waits), "no room"))
		}
		if width, ok := terminal(p.w); ok { // behind it there are counts, and a bar if there is room
			text = cut(text, max(20, width-27))
		}
		p.bar.Describe(text)
		_ = p.bar.Set(done) // it fails only when drawing does
		return
	}
	pace := p.pace(done)
	if p.now().Before(p.next) {
		return
	}
	p.next = p.now().Add(progressEvery)
	line := fmt.Sprintf("%d %s, ", done, p.unit)
	if p.total > 0 {
		line = fmt.Sprintf("%d of %d %s, ", done, p.total, p.unit)
	}
	line += pace + more
	if waits := p.waits(n); waits != "" {
		line += "; " + waits
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
