package redisq

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
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
		period, phase, ends, its, ramp := leaky.Instant(0), leaky.Instant(0), "", leaky.Instant(0), ""
		if l.HasQuota() {
			quota, err := l.QuotaRule(now)
			if err != nil {
				return nil, err
			}
			period, phase, ends, its = packCalendar(quota.Calendar)
			ramp = packRamp(&quota.Ramp)
		}
		put("name", limitName(l))
		put("n", n)
		put("d", d)
		put("burst", max(1, l.Burst))
		put("max", l.Quota.Max)
		put("period", int64(period))
		put("phase", int64(phase))
		put("ends", ends)
		put("unit", l.Counts())
		put("ramp", ramp)
		low = sooner(low, its)
	}
	hours, its := hoursArgs(s, now)
	return append(args, "hours", hours, "calendars_until", orNever(sooner(low, its))), nil
}

// hoursArgs returns the hours of a queue as limits.lua reads them, and from when on they know too few spans, of the
// lanes too.
func hoursArgs(s *queue.Spec, now time.Time) (edges string, low leaky.Instant) {
	edges, low = packHours(s.Hours, now)
	for _, h := range s.Lanes.AllHours() {
		_, its := packHours(h, now)
		edges, low = cmp.Or(edges, onlyLanes), sooner(low, its)
	}
	return edges, low
}

// onlyLanes stands for the hours of a queue if only its lanes have any.
const onlyLanes = "-"

// packHours returns the edges of hours, and when to renew them; "" and 0 without hours.
func packHours(h queue.Hours, now time.Time) (edges string, renew leaky.Instant) {
	s, err := h.Schedule("hours")
	if err != nil || s == nil {
		return "", 0 // the spec is valid
	}
	known, renew := s.Calendar(now)
	return packInstants(known.Edges()), renew
}

// packInstants returns instants of 7 bytes each.
func packInstants(all []leaky.Instant) string {
	var b []byte
	for _, at := range all {
		var whole [8]byte
		binary.BigEndian.PutUint64(whole[:], uint64(at))
		b = append(b, whole[1:]...)
	}
	return string(b)
}

// laneHoursField is the name of the hours with an index of Lanes.AllHours among the rules of single lanes, which
// otherwise have the digests of lanes for names.
func laneHoursField(index int) string { return fmt.Sprint("h", index+1) }

// laneHoursArgs returns the hours of lanes, by their names.
func laneHoursArgs(s *queue.Spec, now time.Time) (args []any) {
	for i, h := range s.Lanes.AllHours() {
		edges, _ := packHours(h, now)
		args = append(args, "lane:"+laneHoursField(i), edges)
	}
	return args
}

// limitName returns all fields of a limit as a text. Of a quota or budget it is the text in JobInfo.Why.
func limitName(l *queue.Limit) string {
	if l.Paced() {
		return fmt.Sprintf("%s burst %d", l.Rate, l.Burst)
	}
	return l.String()
}

// calendarLow is the minimum number of future ends that a calendar should know.
const calendarLow = 32

// packCalendar returns a calendar as limits.lua reads it, and from when on it knows too few ends.
func packCalendar(c leaky.Calendar) (period, phase leaky.Instant, ends string, low leaky.Instant) {
	if period, phase = c.Fixed(); period > 0 {
		return period, phase, "", 0
	}
	return 0, 0, packInstants(c.Ends()), c.Ends()[len(c.Ends())-calendarLow]
}

// packRamp returns a ramp as calendar.lua reads it, "" for none.
func packRamp(r *leaky.Ramp) string {
	if len(r.Steps) == 0 {
		return ""
	}
	head := uint64(r.Past + noPast)
	if r.Hold {
		head = 1<<56 | uint64(r.From)
	}
	b := binary.BigEndian.AppendUint64(nil, head)
	for _, n := range r.Steps {
		b = binary.BigEndian.AppendUint32(b, uint32(n)) // at most queue.MaxQuota
	}
	return string(b)
}

// noPast is above any leaky.Ramp.Past, so that sums with it are positive.
const noPast = 1 << 48

// whyRamp returns the reason of a quota with a ramp from the answer of job.lua: the name of the limit, its window and
// the spec of its queue.
func whyRamp(reason string) (string, error) {
	name, rest, ramp := strings.Cut(reason, "\n")
	if !ramp {
		return reason, nil
	}
	var w leaky.Window
	state, text, _ := strings.Cut(rest, "\n")
	if _, err := fmt.Sscan(state, &w.Ends, &w.Used, &w.Step); err != nil {
		return name, err
	}
	spec, err := queue.ParseSpec([]byte(text))
	if err != nil {
		return name, err
	}
	for i := range spec.Limits {
		if l := &spec.Limits[i]; limitName(l) == name {
			q, err := l.QuotaRule((w.Ends - 1).Time())
			return l.QuotaReason(q, w), err
		}
	}
	return name, nil // the spec has changed meanwhile
}

// orNever returns the instant from which on calendars know too few ends, as scripts read it; "" without calendars.
func orNever(low leaky.Instant) any {
	if low == 0 {
		return ""
	}
	return int64(low)
}

// wallNow returns the time by the wall clock, which only calendars and hours need.
func (e *Engine) wallNow(ctx context.Context, s *queue.Spec, partition int) (time.Time, error) {
	if !s.Hours.On() && len(s.Lanes.AllHours()) == 0 &&
		!slices.ContainsFunc(s.Limits, func(l queue.Limit) bool { return l.HasQuota() }) {
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
	hours, low := hoursArgs(&i.Spec, i.Now)
	args := []any{e.instant(), name, "", i.Revision, hours}
	args = append(args, laneHoursArgs(&i.Spec, i.Now)...)
	for k := range i.Spec.Limits {
		l := &i.Spec.Limits[k]
		if !l.HasQuota() {
			continue
		}
		q, err := l.QuotaRule(i.Now)
		if err != nil {
			return err
		}
		if _, _, ends, its := packCalendar(q.Calendar); ends != "" {
			args, low = append(args, limitName(l), ends), sooner(low, its)
			if l.Ramp.On() {
				args = append(args, "ramp:"+limitName(l), packRamp(&q.Ramp))
			}
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
