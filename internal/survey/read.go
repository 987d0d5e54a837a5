package survey

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
	"github.com/penstock/penstock/queue/status"
)

// Read reads the queues once. After an error the last snapshot stays.
func (s *Survey) Read(ctx context.Context) error {
	if err := s.begun(ctx); err != nil {
		return err
	}
	defer s.ended()
	return s.read(ctx)
}

// First returns the latest snapshot. Before the first reading, it reads or waits for the reading in progress.
func (s *Survey) First(ctx context.Context) (*Snapshot, error) {
	if latest := s.Latest(); !latest.At.IsZero() {
		return latest, nil
	}
	if err := s.begun(ctx); err != nil {
		return s.Latest(), err
	}
	defer s.ended()
	if latest := s.Latest(); !latest.At.IsZero() { // another caller has read meanwhile
		return latest, nil
	}
	err := s.read(ctx)
	return s.Latest(), err
}

// begun waits until no other reading is in progress, or ctx ends.
func (s *Survey) begun(ctx context.Context) error {
	select {
	case s.reading <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Survey) ended() { <-s.reading }

func (s *Survey) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := s.restore(ctx); err != nil {
		return err
	}
	readings, err := s.engine.Readings(ctx)
	if err != nil {
		return err
	}
	now := s.o.Now()
	infos, err := s.engine.GetMany(ctx, s.stale(readings, now))
	if err != nil {
		return err
	}
	outlooks := s.look(ctx, infos, s.clock.steps(now))
	s.publish(now, readings, infos, outlooks)
	s.keep(ctx, now)
	return nil
}

// stale names the queues to read completely: queues whose state may have changed and, at each step, queues with jobs.
// If there are too many, they take turns.
func (s *Survey) stale(readings []queue.Reading, now time.Time) []string {
	var must []string
	var may []*Row
	step := s.clock.steps(now)
	for n := range readings {
		r := &readings[n]
		t := s.tracks[r.Name]
		switch {
		case t == nil || t.differs(r):
			must = append(must, r.Name)
		case step && (t.over(r.Now) || t.active(r) || t.unattended() || now.Sub(t.row.infoAt) > maxAge):
			may = append(may, t.row)
		}
	}
	if len(s.tracks) > 0 {
		must = must[:min(len(must), maxWhole)]
	}
	slices.SortFunc(may, func(a, b *Row) int { return a.infoAt.Compare(b.infoAt) })
	for _, row := range may[:min(len(may), max(0, maxWhole-len(must)))] {
		must = append(must, row.Name)
	}
	return must
}

// publish makes a Snapshot from readings and completely read queues.
func (s *Survey) publish(
	now time.Time, readings []queue.Reading, infos []queue.Info, outlooks map[string]*Outlook,
) {
	whole := make(map[string]*queue.Info, len(infos))
	for n := range infos {
		whole[infos[n].Spec.Name] = &infos[n]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.latest.Load()
	first := before.At.IsZero()
	s.readings++
	stepped := s.clock.advance(now, 0)
	rows, byName := make([]*Row, 0, len(readings)), make([]*queue.Reading, len(readings))
	for n := range readings {
		byName[n] = &readings[n]
	}
	slices.SortFunc(byName, func(a, b *queue.Reading) int { return strings.Compare(a.Name, b.Name) })
	for _, r := range byName {
		t, info := s.tracks[r.Name], whole[r.Name]
		switch {
		case t == nil && info == nil: // new, and beyond maxWhole or already deleted
			continue
		case t == nil:
			t = &track{}
			s.tracks[r.Name] = t
			s.begin(t, now, r)
		case recreated(&r.Counters, &t.row.Counters):
			s.begin(t, now, r)
		}
		was := t.row
		t.reading = s.readings
		t.see(now, r, info, s.parentOf(r.Name), outlooks[r.Name])
		if stepped || t.points[0].at.Equal(now) { // or the queue is new
			t.step(&s.clock, now)
		}
		if !first {
			s.note(s.log.compare(now, was, t.row))
		}
		rows = append(rows, t.row)
	}
	for name, t := range s.tracks {
		if t.reading != s.readings {
			s.note(s.log.compare(now, t.row, nil))
			s.forget(name, t)
		}
	}
	s.restored = nil
	s.latest.Store(&Snapshot{At: now, rows: rows, next: make(chan struct{})})
	close(before.next)
}

// begin starts the track of a new or recreated queue. A history that the store kept goes on.
func (s *Survey) begin(t *track, now time.Time, r *queue.Reading) {
	t.points = [2]point{{now, r.Counters}, {now, r.Counters}}
	if t.history == nil {
		if s.kept == s.o.MaxQueues {
			return
		}
		s.kept++
	}
	if h := s.restored[r.Name]; h != nil && !h.last.recreated(&r.Counters) {
		t.history = h
		return
	}
	t.history = newHistory(&s.clock, now, sampleOf(&Row{Reading: *r}, now))
}

func (s *Survey) forget(name string, t *track) {
	if t.history != nil {
		s.kept--
	}
	delete(s.tracks, name)
}

// parentOf returns the track of a queue's parent; nil if it has no parent.
func (s *Survey) parentOf(name string) *track {
	if p := names.Parent(name); p != "" {
		return s.tracks[p]
	}
	return nil
}

// see makes a new row from a reading. info is nil if the queue was not read completely, and outlook if there is no new
// one.
func (t *track) see(now time.Time, r *queue.Reading, info *queue.Info, parent *track, outlook *Outlook) {
	row := &Row{Outlook: outlook, Reading: *r, Rates: t.points[1].since(now, &r.Counters)}
	switch {
	case info != nil:
		t.known = *r
		row.Info, row.infoAt, row.Status = info, now, status.Of(info)
	case t.row.alike(row) && !t.outdated(parent):
		return // nothing changed
	default:
		row.Info, row.infoAt, row.Status = t.row.Info, t.row.infoAt, t.row.Status
	}
	if parent != nil && parent.row.Info != row.Info.Parent {
		child := *row.Info
		child.Parent = parent.row.Info
		row.Info, row.Status = &child, status.Of(&child)
	}
	if parent != nil {
		t.parent = parent.known
	}
	if row.Outlook == nil && t.row != nil {
		row.Outlook = t.row.Outlook
	}
	t.row = row
}
