package survey

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/internal/series"
	"github.com/penstock/penstock/queue"
)

// Keeper is the part of a store that keeps histories across restarts.
type Keeper interface {
	series.Samples
	Drainers(ctx context.Context) (queue.Drainers, error)
}

// tier is a series of samples in the store. The older the samples, the coarser. Each sample has all queues, so the
// first process to write one writes for all, and none depends on another sample. 114 samples of at most
// series.MaxBytes take at most 57 MiB.
type tier struct {
	series uint8
	step   time.Duration
	keep   int64 // number of samples
}

var tiers = [...]tier{
	{1, 30 * time.Second, 30},
	{2, coarseStep, 36},
	{3, 30 * time.Minute, 48},
}

// slot returns the number of a tier's sample at an instant.
func (t tier) slot(at time.Time) int64 { return at.UnixNano() / int64(t.step) }

// keeping is the state of what the store keeps.
type keeping struct {
	asked    bool // the store was asked for its samples
	restored map[string]*history
	written  [len(tiers)]int64 // the slots of the last samples
	versions map[string]bool
	failing  bool
	failures atomic.Int64
}

// KeepFailures returns the number of samples that could not be stored or read.
func (s *Survey) KeepFailures() int64 { return s.failures.Load() }

// restore reads, once, what the store kept.
func (s *Survey) restore(ctx context.Context) error {
	if s.asked || s.o.Keeper == nil {
		return nil
	}
	now := s.o.Now()
	var kept []keptData
	for n, t := range tiers {
		for after := max(0, t.slot(now)-t.keep); ; {
			some, err := s.o.Keeper.SamplesSince(ctx, t.series, after)
			if err != nil {
				return err
			}
			if len(some) == 0 {
				break
			}
			for i := range some {
				kept = append(kept, keptData{t, some[i]})
			}
			after = some[len(some)-1].Number
		}
		s.written[n] = t.slot(now)
	}
	slices.SortStableFunc(kept, func(a, b keptData) int { return cmp.Compare(a.since(), b.since()) })
	s.asked, s.restored = true, map[string]*history{}
	for i := range kept {
		s.adopt(kept[i], now)
		kept[i] = keptData{} // free its memory
	}
	return nil
}

// keptData is a sample that is not decoded yet.
type keptData struct {
	tier
	series.Sample
}

func (k *keptData) since() int64 { return k.Number * int64(k.step) }

// adopt adds a sample to the restored histories. Samples of the future, by another host's clock, are left out.
func (s *Survey) adopt(data keptData, now time.Time) {
	k, err := decodeSample(data.Data)
	if err != nil {
		s.failures.Add(1)
		s.o.Logger.Warn("a sample of the history cannot be read", "series", data.Series, "number", data.Number, "error", err)
		return
	}
	if k.at.After(now) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.versions = k.versions
	for _, m := range k.marks {
		s.restoreMark(m)
	}
	s.clock.advance(k.at, data.step)
	for i := range k.rows {
		row := &k.rows[i]
		h := s.restored[row.name]
		if h == nil || row.sample[in] < h.last[in] || row.sample[gone] < h.last[gone] {
			if len(s.restored) >= s.o.MaxQueues && h == nil {
				continue
			}
			h = newHistory(&s.clock, k.at, row.sample)
			s.restored[row.name] = h
		}
		h.add(&s.clock, row.sample)
	}
}

// keep writes the samples that are due.
func (s *Survey) keep(ctx context.Context, now time.Time) {
	if s.o.Keeper == nil {
		return
	}
	var due []int
	for n, t := range tiers {
		if t.slot(now) > s.written[n] {
			due = append(due, n)
		}
	}
	if len(due) == 0 {
		return
	}
	err := s.noteDeployments(ctx, now)
	for _, n := range due {
		t := tiers[n]
		s.written[n] = t.slot(now) // after a failure, the next sample is the next try
		data := s.encodeNow(now, t.step)
		if data == nil {
			continue
		}
		_, failed := s.o.Keeper.PutSample(ctx, series.Sample{Series: t.series, Number: t.slot(now), Data: data}, t.keep)
		if failed != nil {
			s.failures.Add(1)
			err = failed
		}
	}
	if err != nil && !s.failing { // log only the first of several failures
		s.o.Logger.Warn("the history cannot be stored; it is kept in memory only", "error", err)
	}
	s.failing = err != nil
}

// noteDeployments marks processes of new versions.
func (s *Survey) noteDeployments(ctx context.Context, now time.Time) error {
	drainers, err := s.o.Keeper.Drainers(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noteVersions(now, s.versionsNow(drainers))
	return nil
}

// encodeNow returns a sample of all queues, with the marks of the last step; nil if there are no queues.
func (s *Survey) encodeNow(now time.Time, step time.Duration) []byte {
	s.mu.Lock()
	k := keptSample{at: now, versions: s.versions, marks: s.marksBetween(now.Add(-step), now)}
	for name, t := range s.tracks {
		if t.history != nil {
			k.rows = append(k.rows, keptRow{name, sampleOf(t.row, now)})
		}
	}
	s.mu.Unlock()
	if len(k.rows) == 0 {
		return nil
	}
	return k.encode()
}
