package redisq

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// limitArgs returns the limits as create.lua reads them.
func limitArgs(s *queue.Spec, now time.Time) ([]any, error) {
	low, args := leaky.Instant(0), []any{"limits", len(s.Limits)}
	for i := range s.Limits {
		l := &s.Limits[i]
		put := func(name string, value any) { args = append(args, fmt.Sprintf("limit.%d.%s", i+1, name), value) }
		n, d := l.Rate.Fraction()
		period, phase, ends, its := leaky.Instant(0), leaky.Instant(0), "", leaky.Instant(0)
		if !l.Paced() {
			calendar, err := l.Calendar(now)
			if err != nil {
				return nil, err
			}
			period, phase, ends, its = packCalendar(calendar)
		}
		put("name", limitName(l))
		put("n", n)
		put("d", d)
		put("burst", max(1, l.Burst))
		put("max", l.Quota.Max)
		put("period", int64(period))
		put("phase", int64(phase))
		put("ends", ends)
		low = sooner(low, its)
	}
	return append(args, "calendars_until", orNever(low)), nil
}

// limitName returns all fields of a limit as a text. Of a quota it is the text in JobInfo.Why.
func limitName(l *queue.Limit) string {
	switch {
	case l.Paced():
		return fmt.Sprintf("%s burst %d", l.Rate, l.Burst)
	case l.Timezone == "":
		return l.Quota.String()
	}
	return l.Quota.String() + " " + l.Timezone
}

// calendarLow is the minimum number of future ends that a calendar should know.
const calendarLow = 32

// packCalendar returns a calendar as limits.lua reads it, and from when on it knows too few ends.
func packCalendar(c leaky.Calendar) (period, phase leaky.Instant, ends string, low leaky.Instant) {
	if period, phase = c.Fixed(); period > 0 {
		return period, phase, "", 0
	}
	var b []byte
	for _, end := range c.Ends() {
		var whole [8]byte
		binary.BigEndian.PutUint64(whole[:], uint64(end))
		b = append(b, whole[1:]...)
	}
	return 0, 0, string(b), c.Ends()[len(c.Ends())-calendarLow]
}

// orNever returns the instant from which on calendars know too few ends, as scripts read it; "" without calendars.
func orNever(low leaky.Instant) any {
	if low == 0 {
		return ""
	}
	return int64(low)
}

// engineNow returns the engine's time, which only calendars need.
func (e *Engine) engineNow(ctx context.Context, s *queue.Spec, partition int) (time.Time, error) {
	if !slices.ContainsFunc(s.Limits, func(l queue.Limit) bool { return !l.Paced() }) {
		return time.Time{}, nil
	}
	v, err := e.ask(ctx, renewScript, partition, e.instant(), "", "", 0)
	if err != nil {
		return time.Time{}, err
	}
	now, _ := v.(int64)
	return micros(now), nil
}

// renew updates the calendars of a queue.
func (e *Engine) renew(ctx context.Context, partition int, name string) error {
	i, err := e.Get(ctx, name)
	if err != nil && !errors.Is(err, queue.ErrUnknownQueue) {
		return err
	}
	low, args := leaky.Instant(0), []any{e.instant(), name, "", i.Revision}
	for k := range i.Spec.Limits {
		l := &i.Spec.Limits[k]
		if l.Paced() {
			continue
		}
		c, err := l.Calendar(i.Now)
		if err != nil {
			return err
		}
		if _, _, ends, its := packCalendar(c); ends != "" {
			args, low = append(args, limitName(l), ends), sooner(low, its)
		}
	}
	args[2] = orNever(low)
	_, err = e.once(ctx, renewScript, partition, args...)
	return err
}

// sooner returns the earlier of two instants; 0 stands for never.
func sooner(a, b leaky.Instant) leaky.Instant {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
