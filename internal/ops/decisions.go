package ops

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// decisionWindow is how often the same decision about a queue is logged at most.
	decisionWindow = time.Second
	// maxDecisions is how many different ones are logged in that time; those on top are counted as one.
	maxDecisions = 100
)

// Decisions logs what is decided against jobs and queues: of each kind, queue and reason one record a second, and how
// many it left out. A nil Decisions logs nothing.
type Decisions struct {
	log *slog.Logger

	mu     sync.Mutex
	left   map[decision]int64 // of those that were logged since the last flush
	others int64              // for which there was no room
	timer  *time.Timer        // until the flush; nil if nothing was logged
}

type decision struct{ what, queue, reason string }

func (d decision) attrs() []slog.Attr {
	return []slog.Attr{slog.String("decision", d.what), slog.String("queue", d.queue), slog.String("reason", d.reason)}
}

// NewDecisions returns Decisions that are logged to log.
func NewDecisions(log *slog.Logger) *Decisions { return &Decisions{log: log} }

// Note tells of a decision. more is asked only if it is logged.
func (d *Decisions) Note(what, queue, reason string, more func() []slog.Attr) {
	if d == nil {
		return
	}
	key := decision{what, queue, reason}
	if d.first(key) {
		d.log.LogAttrs(context.Background(), slog.LevelInfo, "decision", append(key.attrs(), more()...)...)
	}
}

func (d *Decisions) first(key decision) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer == nil {
		d.left = map[decision]int64{}
		d.timer = time.AfterFunc(decisionWindow, d.flush)
	}
	_, known := d.left[key]
	switch {
	case known:
		d.left[key]++
	case len(d.left) >= maxDecisions:
		d.others++
	default:
		d.left[key] = 0
		return true
	}
	return false
}

// Close logs what was left out and not told yet.
func (d *Decisions) Close() {
	if d != nil {
		d.flush()
	}
}

func (d *Decisions) flush() {
	d.mu.Lock()
	left, others := d.left, d.others
	if d.timer != nil {
		d.timer.Stop()
	}
	d.left, d.others, d.timer = nil, 0, nil
	d.mu.Unlock()
	for key, n := range left {
		if n > 0 {
			d.log.LogAttrs(context.Background(), slog.LevelInfo, "decisions left out",
				append(key.attrs(), slog.Int64("left_out", n))...)
		}
	}
	if others > 0 {
		d.log.LogAttrs(context.Background(), slog.LevelInfo, "decisions left out", slog.Int64("left_out", others))
	}
}
