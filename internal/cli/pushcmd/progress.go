package pushcmd

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/push"
	"github.com/penstock/penstock/internal/cli/show"
)

// A push may wait for hours, so it prints fewer lines than other commands.
const lineInterval = 2 * command.LineInterval

// progress shows how far a push is, and why jobs wait.
type progress struct {
	*command.Progress
	count push.Count

	// state describes the queue while it is full. It is called every few seconds.
	state   func() string
	last    string    // result of state
	askedAt time.Time // time of the last call
}

func newProgress(w io.Writer, total int64, state func() string) *progress {
	p := &progress{Progress: command.NewProgress(w, "pushing", "jobs", total), state: state}
	p.Interval, p.Note = lineInterval, p.note
	return p
}

func (p *progress) show(n push.Count) {
	p.count = n
	p.Show(int64(n.Read - n.Undecided))
}

// note describes deferred and waiting jobs.
func (p *progress) note(short bool) string {
	n := &p.count
	text := ""
	if n.Deferred > 0 {
		text = fmt.Sprintf(", %d deferred", n.Deferred)
	}
	if n.Undecided == 0 {
		return text
	}
	if short {
		p.refresh()
		return fmt.Sprintf("%s; %d wait: %s", text, n.Undecided, cmp.Or(p.last, show.Text(n.Waits), "no room"))
	}
	switch {
	case n.Waits != "":
		text += fmt.Sprintf("; %d wait, the next for %s: %s",
			n.Undecided, show.Duration(time.Until(n.Until)), show.Text(n.Waits))
	case n.Refusals > 0:
		text += fmt.Sprintf("; %d wait for room", n.Undecided)
	default:
		return text
	}
	if p.refresh(); p.last != "" {
		text += "; the queue: " + p.last
	}
	return text
}

// refresh reads the state of a full queue, at most every few seconds.
func (p *progress) refresh() {
	if p.state != nil && p.count.Refusals > 0 && time.Since(p.askedAt) >= lineInterval/2 {
		p.last, p.askedAt = p.state(), time.Now()
	}
}
