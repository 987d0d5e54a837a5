package queuecmd

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// limitsText describes the limits of a queue besides its rate and capacity.
func limitsText(q *wire.Queue) string {
	var parts []string
	for i := range q.Limits {
		parts = append(parts, limitText(&q.Limits[i]))
	}
	if q.MaxInFlight > 0 {
		parts = append(parts, fmt.Sprintf("at most %d in flight", q.MaxInFlight))
	}
	if q.MaxScheduled > 0 {
		parts = append(parts, fmt.Sprintf("at most %d scheduled", q.MaxScheduled))
	}
	if q.Ordered {
		parts = append(parts, "ordered: one job of a lane at a time")
	}
	return strings.Join(parts, ", ")
}

// bytesText returns the size of a queue in bytes, and its maximum.
func bytesText(s *wire.Stats) string {
	used := unit.Bytes(s.Bytes).Short()
	if s.MaxBytes == 0 {
		return used
	}
	return used + " of " + unit.Bytes(s.MaxBytes).Short()
}

func limitText(l *queue.Limit) string {
	if l.HasQuota() || l.Burst > 1 {
		return l.String()
	}
	text, _ := strings.CutSuffix(l.String(), " burst 1")
	return text
}

// quotasText returns what is left of each quota.
func quotasText(quotas []wire.Quota) string {
	var parts []string
	for _, q := range quotas {
		limit := strings.TrimSpace(q.Quota.String() + " " + q.Unit)
		text := fmt.Sprintf("%d of %s left until %s", q.Left, limit, show.Instant(&q.Ends))
		if ramp := q.RampText(); ramp != "" {
			text += " (" + ramp + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// budgetsText returns how much of each budget is in use, such as "tokens: 1800 of 20000 used at 200000/m, all free in
// 540ms".
func budgetsText(budgets []wire.Budget, now time.Time) string {
	var parts []string
	for _, b := range budgets {
		text := fmt.Sprintf("%s: %s of %s used at %s", b.Unit, show.Int(b.Used), show.Int(b.Burst), b.Rate)
		if wait := b.Free.Sub(now); b.Used > 0 && wait > 0 {
			text += ", all free in " + show.Duration(wait)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// estimatesText returns what estimates have learned, such as "tokens: 1432, p95 of the latest costs".
func estimatesText(list []wire.Estimate) string {
	var parts []string
	for _, e := range list {
		text := fmt.Sprintf("%s: %s, %s of the latest costs", e.Unit, show.Int(e.Cost), e.Learn)
		if e.Known < queue.LearnAfter {
			text = fmt.Sprintf("%s: %s, the default; %s after %d costs, %d are known", e.Unit, show.Int(e.Cost), e.Learn,
				queue.LearnAfter, e.Known)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// parentText describes the limits that a queue shares with its siblings.
func parentText(p *wire.Parent, now time.Time) string {
	if p == nil {
		return ""
	}
	text := fmt.Sprintf("%s, %s shared by all its children", p.Name, p.Rate)
	if p.Guaranteed > 0 {
		text += fmt.Sprintf(", at least %s of %s for this queue", perSecondText(p.Guaranteed), p.Rate)
	}
	for _, state := range []string{quotasText(p.Quotas), budgetsText(p.Budgets, now)} {
		if state != "" {
			text += ", " + state
		}
	}
	if p.Paused {
		text += ", paused"
	}
	return text
}

// perSecondText returns a rate per second with three digits.
func perSecondText(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) + "/s" }

func childrenText(q *wire.Queue) string {
	if q.Stats.Children == 0 {
		return ""
	}
	return fmt.Sprintf("%d, which share its rate", q.Stats.Children)
}

// lanesText returns the number of lanes with waiting jobs, and the limits of each lane. It is empty if the queue uses
// no lanes.
func lanesText(q *wire.Queue) string {
	rule := laneRuleText(&q.Lanes.LaneRule)
	switch {
	case rule != "":
		return fmt.Sprintf("%d with jobs waiting; each %s", q.Stats.Lanes, rule)
	case q.Stats.Lanes > 1 || len(q.Lanes.Overrides) > 0:
		return fmt.Sprintf("%d with jobs waiting", q.Stats.Lanes)
	}
	return ""
}

// laneRuleText describes the limits of a lane; empty without limits.
func laneRuleText(r *queue.LaneRule) string {
	var parts []string
	if !r.Rate.Unlimited() {
		rate := r.Rate.String()
		if r.Burst > 1 {
			rate += fmt.Sprintf(" burst %d", r.Burst)
		}
		parts = append(parts, rate)
	}
	for _, l := range r.Limits.List() {
		parts = append(parts, l.String())
	}
	if r.Capacity > 0 {
		parts = append(parts, fmt.Sprintf("at most %d jobs", r.Capacity))
	}
	if r.MaxBytes > 0 {
		parts = append(parts, fmt.Sprintf("at most %s", r.MaxBytes))
	}
	if r.MaxInFlight > 0 {
		parts = append(parts, fmt.Sprintf("at most %d in flight", r.MaxInFlight))
	}
	if r.Hours.On() {
		parts = append(parts, r.Hours.String())
	}
	if r.Weight > 0 {
		parts = append(parts, fmt.Sprintf("weight %d", r.Weight))
	}
	return strings.Join(parts, ", ")
}

// maxOverrides is the maximum number of overrides to show; -o json shows all.
const maxOverrides = 10

func overridesText(q *wire.Queue) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(q.Lanes.Overrides)) {
		if len(parts) == maxOverrides {
			parts = append(parts, fmt.Sprintf("and %d more", len(q.Lanes.Overrides)-maxOverrides))
			break
		}
		r := q.Lanes.Overrides[key]
		rule := laneRuleText(&r)
		if rule == "" {
			rule = "no limits"
		}
		parts = append(parts, key+": "+rule)
	}
	return strings.Join(parts, "; ")
}
