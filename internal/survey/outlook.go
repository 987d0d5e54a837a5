package survey

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/cause"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/quote"
)

// Outlook is the forecast of a queue as of At, by the engine's clock.
type Outlook struct {
	queue.Forecast
	At time.Time
	// Next is when a job without a lane would leave if it were appended at that time; zero is never.
	Next time.Time
	// Why is what keeps jobs from leaving, if they or the next one never leave.
	Why cause.Cause
}

// Delay returns how long a job without a lane would have waited if it had been appended at o.At. ok is false if it
// would never have left.
func (o *Outlook) Delay() (delay time.Duration, ok bool) {
	return max(0, o.Next.Sub(o.At)), !o.Next.IsZero()
}

func (o *Outlook) nextAt() time.Time   { return o.Next }
func (o *Outlook) finishAt() time.Time { return o.Finish }

// seconds returns how long it is from o.At until an instant: infinite if that never comes, -1 without an outlook.
func (o *Outlook) seconds(until func(*Outlook) time.Time) float64 {
	if o == nil {
		return -1
	}
	if at := until(o); !at.IsZero() {
		return max(0, at.Sub(o.At).Seconds())
	}
	return math.Inf(1)
}

// Forecast returns the sum of the latest forecasts of the queues that match, as of now by the engine's clock, and how
// many queues with jobs have none yet.
func (s *Snapshot) Forecast(wanted func(name string) bool) (sum queue.Forecast, now time.Time, missing int) {
	var all []*queue.Forecast
	for _, r := range s.rows {
		if r.Reading.Now.After(now) {
			now = r.Reading.Now
		}
		switch {
		case wanted != nil && !wanted(r.Name):
		case r.Outlook != nil:
			all = append(all, &r.Outlook.Forecast)
		case r.Size > 0:
			missing++
		}
	}
	if now.IsZero() {
		now = s.At
	}
	return quote.Sum(now, all), now, missing
}

// lookCalls bounds the reading of queues for their outlook: how many calls of a script it takes at each step. Queues of
// which an Info says enough take none.
const lookCalls = 40

// look makes the outlooks of queues that were read completely, by name. Queues that must be read once more take turns.
func (s *Survey) look(ctx context.Context, infos []queue.Info, step bool) map[string]*Outlook {
	all := make(map[string]*Outlook, len(infos))
	var more []*queue.Info
	for n := range infos {
		if l, ok := infos[n].PlainLineup(); ok {
			all[infos[n].Spec.Name] = outlookOf(&l)
		} else if step {
			more = append(more, &infos[n])
		}
	}
	lookedAt := func(i *queue.Info) int64 {
		if t := s.tracks[i.Spec.Name]; t != nil && t.row.Outlook != nil {
			return t.row.Outlook.At.UnixNano()
		}
		return 0
	}
	slices.SortFunc(more, func(a, b *queue.Info) int { return cmp.Compare(lookedAt(a), lookedAt(b)) })
	for calls := int64(0); len(more) > 0 && calls < lookCalls; more = more[1:] {
		l, err := s.engine.Lineup(ctx, more[0].Spec.Name)
		if errors.Is(err, queue.ErrUnknownQueue) { // deleted meanwhile
			continue
		}
		if err != nil { // the rest of the reading counts more; these queues keep their outlook until the next step
			s.o.Logger.Warn("no outlook", "queue", more[0].Spec.Name, "error", err)
			break
		}
		calls += 2 + l.Info.Lanes/250
		all[l.Spec.Name] = outlookOf(&l)
	}
	return all
}

// outlookOf returns nil if the spec of the queue is not valid in this version.
func outlookOf(l *queue.Lineup) *Outlook {
	o := &Outlook{At: l.Now}
	var err error
	if o.Forecast, err = quote.Curve(l, queue.ForecastRequest{}); err != nil {
		return nil
	}
	next := queue.ForecastAppend{Jobs: 1}
	if l.Spec.Overflow == queue.Defer && (l.Deferred > 0 || l.Full()) {
		next = queue.ForecastAppend{Deferred: 1}
	}
	f, err := quote.Curve(l, queue.ForecastRequest{Append: next})
	if err != nil {
		return nil
	}
	if o.Next, o.Lanes = f.First, nil; f.Never() {
		o.Why = f.Bends[len(f.Bends)-1].By
	}
	return o
}
