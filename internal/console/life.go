package console

import (
	"time"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// spell is a part of a job's life: a wait or an attempt.
type spell struct {
	What     string
	Kind     string // wait, attempt or failed: the color of its bar
	From, To time.Time
	Lasts    bool // it has not ended
	// X and Width are the place of the bar in thousandths of the job's life.
	X, Width        float64
	Drainer, Answer string
}

// Took formats the duration of the spell.
func (s *spell) Took() string { return lasting(unit.Duration(s.To.Sub(s.From))) }

// waitsAfter says what a job waits for after an attempt.
var waitsAfter = map[queue.AttemptOutcome]string{
	queue.AttemptFailed:    "waits for the next attempt",
	queue.AttemptDied:      "dead, until replayed",
	queue.AttemptLost:      "waits again: the lease ran out",
	queue.AttemptUnknown:   "may have been sent",
	queue.AttemptThrottled: "waits: the receiver throttled",
	queue.AttemptDown:      "waits: the target was down",
}

// lifeOf returns the waits and attempts of a job in order, as far as its timeline has them.
func lifeOf(j *wire.Job, now time.Time) []spell {
	if j.AppendedAt == nil {
		return nil
	}
	life := life{at: *j.AppendedAt, wait: "waits for its turn"}
	for _, a := range j.Timeline { // a replayed job has attempts from before it was appended again
		if a.At != nil && a.At.Before(life.at) {
			life.at = *a.At
		}
	}
	if j.State == queue.Delivered && j.Attempts > 1 {
		life.wait = "waits, and earlier attempts"
	}
	for i := range j.Timeline {
		life.attempt(&j.Timeline[i], now)
		if i == 0 && len(j.Timeline) >= queue.MaxTimeline {
			life.wait = "waits, and attempts that are not kept"
		}
	}
	switch {
	case j.State.Ended() && j.EndedAt != nil:
		life.waitUntil(*j.EndedAt)
	case !j.State.Ended() && j.State != queue.Leased:
		if y := j.Why; y != nil {
			life.wait = "waits for " + y.By.Text()
		}
		life.waitUntil(now)
		if n := len(life.spells); n > 0 {
			life.spells[n-1].Lasts = true
		}
	}
	return life.placed()
}

// life builds the spells of a job. wait is what the job waits for since at.
type life struct {
	spells []spell
	at     time.Time
	wait   string
}

func (l *life) waitUntil(t time.Time) {
	if t.After(l.at) {
		l.spells = append(l.spells, spell{What: l.wait, Kind: "wait", From: l.at, To: t})
		l.at = t
	}
}

func (l *life) attempt(a *wire.Attempt, now time.Time) {
	if a.At == nil {
		return
	}
	l.waitUntil(*a.At)
	s := spell{What: a.Outcome.String(), Kind: "failed", From: *a.At, To: now, Drainer: a.Drainer, Answer: a.Answer}
	switch a.Outcome {
	case queue.UnderWay, queue.AttemptDelivered:
		s.Kind = "attempt"
	}
	if a.EndedAt == nil {
		s.Lasts = true
	} else {
		s.To = *a.EndedAt
	}
	if s.To.Before(s.From) { // its departure is still to come, or the clocks differ
		s.To = s.From
	}
	l.spells, l.at, l.wait = append(l.spells, s), s.To, waitsAfter[a.Outcome]
}

// placed returns the spells with the places of their bars.
func (l *life) placed() []spell {
	if len(l.spells) == 0 {
		return nil
	}
	const narrowest = 4
	begin := l.spells[0].From
	whole := max(1, float64(l.at.Sub(begin)))
	for i := range l.spells {
		s := &l.spells[i]
		s.X = min(1000-narrowest, 1000*float64(s.From.Sub(begin))/whole)
		s.Width = max(narrowest, 1000*float64(s.To.Sub(s.From))/whole)
	}
	return l.spells
}

// ticks returns the time since the beginning of a job's life at its beginning, quarters and end.
func ticks(life []spell) (texts []string) {
	if len(life) == 0 {
		return nil
	}
	whole := life[len(life)-1].To.Sub(life[0].From)
	for n := range 5 {
		texts = append(texts, lasting(unit.Duration(whole*time.Duration(n)/4)))
	}
	return texts
}

// took formats the time between two instants; empty if one is unknown.
func took(from, to *time.Time) string {
	if from == nil || to == nil {
		return ""
	}
	return lasting(unit.Duration(max(0, to.Sub(*from))))
}
