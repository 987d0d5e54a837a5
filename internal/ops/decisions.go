package ops

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// decisionWindow is the time in which the same decision about a queue is logged once.
	decisionWindow = time.Second
	// maxDecisions is the maximum number of different decisions logged in that time. Others are only counted.
	maxDecisions = 100
)

// Decisions logs decisions against jobs and queues. It logs one record per second for each kind, queue and reason, and
// the number of decisions left out. A nil Decisions logs nothing.
type Decisions struct {
	log *slog.Logger

	mu     sync.Mutex
	left   map[decision]int64 // number left out, by decision logged since the last flush
	others int64              // number left out beyond maxDecisions
	timer  *time.Timer        // runs flush; nil if nothing was logged
}

type decision struct{ what, queue, reason string }

func (d decision) attrs() []slog.Attr {
	return []slog.Attr{slog.String("decision", d.what), slog.String("queue", d.queue), slog.String("reason", d.reason)}
}

// NewDecisions returns Decisions that write to log.
func NewDecisions(log *slog.Logger) *Decisions { return &Decisions{log: log} }

// Note logs a decision, or counts it as left out. It calls more only if it logs.
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

// Close logs the pending numbers of decisions left out.
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
