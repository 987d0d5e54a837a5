package metrics

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/status"
)

// rotationPage is how many of the queues behind the first ones a look lists: with one each 10 s, 6,000 a minute.
const rotationPage = 1000

// longWait is how long the next job of a queue has waited when the queue gets series for that; no alert asks for less.
const longWait = time.Minute

// trouble is why a queue has series wherever its name stands, so that alerts know all queues. Of those alike, the one
// that had them before keeps them, or the one whose next job has waited longest.
type trouble struct {
	is     func(i *queue.Info, s *status.Status) bool
	oldest bool
}

// troubles are all, the most urgent first. What concerns all queues of a store or a group at once is none of them, but
// paused, which somebody did to this one.
var troubles = []trouble{
	{is: does(status.Stalled)},
	{is: does(status.CircuitOpen)},
	{is: does(status.Throttled)},
	{is: does(status.NoWorker)},
	{is: does(status.Paused)},
	{is: func(_ *queue.Info, s *status.Status) bool { return s.Full }},
	{is: func(i *queue.Info, _ *status.Status) bool { return i.Held > 0 }},
	{oldest: true, is: func(i *queue.Info, s *status.Status) bool {
		return !slices.Contains(notWaitingTurn, s.Code) && waited(i.OldestWaiting, i.Now) > longWait.Seconds()
	}},
	{is: func(i *queue.Info, _ *status.Status) bool { return i.Deferred > 0 }},
}

func does(code status.Code) func(*queue.Info, *status.Status) bool {
	return func(_ *queue.Info, s *status.Status) bool { return s.Code == code }
}

// notWaitingTurn are the states in which a job waits for something else than its turn. Throttled is none: a receiver
// that asks to be spared again and again must not hide how old the jobs become.
var notWaitingTurn = []status.Code{
	status.Paused, status.ParentPaused, status.NoDrainer, status.CircuitOpen, status.Quota,
}

// urgencyOf tells how urgent it is that a queue has series of its own, the most at 0, and whether it is to have any.
func urgencyOf(i *queue.Info) (urgency int, has bool) {
	s := status.Of(i)
	for n := range troubles {
		if troubles[n].is(i, &s) {
			return n, true
		}
	}
	return 0, false
}

// rotation goes through the queues behind the first ones, a page a look, and keeps what alerts are about.
type rotation struct {
	after    string          // the name it has come to; "" before it begins
	troubled map[string]bool // that have series, at most so many as the first
	now      survey          // what this rotation has counted so far
	last     *survey         // what the one before has; nil if there was none
}

// survey is what is known of the queues behind the first ones.
type survey struct {
	states map[status.Code]float64
	unseen float64   // how many are in trouble and have no series of their own
	oldest time.Time // when the job was appended that has waited longest in those without
}

func newSurvey() survey { return survey{states: map[status.Code]float64{}} }

func (s *survey) add(i *queue.Info, shown bool) {
	code := status.Of(i).Code
	s.states[code]++
	if shown {
		return
	}
	if _, has := urgencyOf(i); has {
		s.unseen++
	}
	if slices.Contains(notWaitingTurn, code) {
		return
	}
	if at := i.OldestWaiting; !at.IsZero() && (s.oldest.IsZero() || at.Before(s.oldest)) {
		s.oldest = at
	}
}

// look lists the next page of the queues behind last, and returns those that are in trouble by now, at most so many.
// The more urgent displace others; of those alike, the ones found first stay, and of those that wait, the oldest.
func (t *rotation) look(ctx context.Context, engine queue.Specs, last string, most int) ([]queue.Info, error) {
	page, err := engine.List(ctx, max(t.after, last), rotationPage)
	if err != nil {
		return nil, err
	}
	seen := make(map[string]bool, len(page))
	for n := range page {
		seen[page[n].Spec.Name] = true
	}
	known := page
	for _, name := range slices.Sorted(maps.Keys(t.troubled)) {
		if seen[name] || name <= last {
			continue
		}
		switch i, err := engine.Get(ctx, name); {
		case err == nil:
			known = append(known, i)
		case !errors.Is(err, queue.ErrUnknownQueue):
			return nil, err
		}
	}
	chosen := t.choose(known, most)
	for n := range page {
		t.now.add(&page[n], t.troubled[page[n].Spec.Name])
	}
	if len(page) < rotationPage {
		done := t.now
		t.after, t.last, t.now = "", &done, newSurvey()
	} else {
		t.after = page[len(page)-1].Spec.Name
	}
	return chosen, nil
}

// choose keeps those of the queues that are to have series, at most so many, and returns them.
func (t *rotation) choose(known []queue.Info, most int) []queue.Info {
	type found struct {
		*queue.Info
		urgency int
		had     bool // it was there before
	}
	var all []found
	for n := range known {
		i := &known[n]
		if urgency, has := urgencyOf(i); has {
			all = append(all, found{i, urgency, t.troubled[i.Spec.Name]})
		}
	}
	slices.SortStableFunc(all, func(a, b found) int {
		switch {
		case a.urgency != b.urgency:
			return a.urgency - b.urgency
		case troubles[a.urgency].oldest && !a.OldestWaiting.Equal(b.OldestWaiting):
			return a.OldestWaiting.Compare(b.OldestWaiting)
		case a.had != b.had && a.had:
			return -1
		case a.had != b.had:
			return 1
		}
		return strings.Compare(a.Spec.Name, b.Spec.Name)
	})
	clear(t.troubled)
	var chosen []queue.Info
	for _, f := range all[:min(most, len(all))] {
		t.troubled[f.Spec.Name] = true
		chosen = append(chosen, *f.Info)
	}
	return chosen
}

// survey is that of the last rotation, or of this one as far as it has come.
func (t *rotation) survey() *survey {
	if t.last != nil {
		return t.last
	}
	return &t.now
}

// end is for when there are no other queues than the first.
func (t *rotation) end() { *t = newRotation() }

func newRotation() rotation { return rotation{troubled: map[string]bool{}, now: newSurvey()} }

// survey shows how many queues are in each state, and how long the oldest job of those has waited that have no series.
func (g *Gauges) survey(first []queue.Info, others bool, now time.Time) {
	counts := map[status.Code]float64{}
	if !others {
		g.oldest.DeleteLabelValues(Other)
		g.unseen.Set(0)
	} else {
		s := g.rotation.survey()
		maps.Copy(counts, s.states)
		g.oldest.WithLabelValues(Other).Set(waited(s.oldest, now))
		g.unseen.Set(s.unseen)
	}
	for i := range first {
		counts[status.Of(&first[i]).Code]++
	}
	for _, code := range status.Codes() {
		g.states.WithLabelValues(string(code)).Set(counts[code])
	}
}

// status shows what a queue does: of its states the present one alone is a series.
func (g *Gauges) status(i *queue.Info) {
	name, s := i.Spec.Name, status.Of(i)
	// The new one first: a scrape between the two must not find none, or alerts would begin anew.
	g.state.WithLabelValues(name, string(s.Code)).Set(1)
	if was, ok := g.was[name]; ok && was != s.Code {
		g.state.DeleteLabelValues(name, string(was))
	}
	g.was[name] = s.Code
	full := 0.0
	if s.Full {
		full = 1
	}
	g.full.WithLabelValues(name).Set(full)
}

func waited(since, now time.Time) float64 {
	if since.IsZero() {
		return 0
	}
	return max(now.Sub(since).Seconds(), 0)
}
