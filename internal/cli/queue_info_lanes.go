package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// limitsOf says what bounds a queue besides its rate and capacity.
func limitsOf(q *wire.Queue) string {
	var parts []string
	for i := range q.Limits {
		parts = append(parts, limitOf(&q.Limits[i]))
	}
	if q.MaxInFlight > 0 {
		parts = append(parts, fmt.Sprintf("at most %d in flight", q.MaxInFlight))
	}
	if q.MaxScheduled > 0 {
		parts = append(parts, fmt.Sprintf("at most %d scheduled", q.MaxScheduled))
	}
	if q.Ordered {
		parts = append(parts, "ordered: one of a lane at a time")
	}
	return strings.Join(parts, ", ")
}

// bytesOf says what a queue's jobs take, of how much.
func bytesOf(s *wire.Stats) string {
	used := unit.Bytes(s.Bytes).Short()
	if s.MaxBytes == 0 {
		return used
	}
	return used + " of " + unit.Bytes(s.MaxBytes).Short()
}

func limitOf(l *queue.Limit) string {
	switch {
	case l.Paced() && l.Burst > 1:
		return fmt.Sprintf("%s burst %d", l.Rate, l.Burst)
	case l.Paced():
		return l.Rate.String()
	case l.Timezone != "":
		return l.Quota.String() + " " + plain(l.Timezone)
	}
	return l.Quota.String()
}

// quotasOf says how much is left of each quota.
func quotasOf(quotas []wire.Quota) string {
	var parts []string
	for _, q := range quotas {
		parts = append(parts, fmt.Sprintf("%d of %s left until %s", q.Left, q.Quota, instant(&q.Ends)))
	}
	return strings.Join(parts, ", ")
}

// parentOf says what holds over a queue and its siblings.
func parentOf(p *wire.Parent) string {
	if p == nil {
		return ""
	}
	text := fmt.Sprintf("%s, %s over all its children", plain(p.Name), p.Rate)
	if left := quotasOf(p.Quotas); left != "" {
		text += ", " + left
	}
	if p.Paused {
		text += ", paused"
	}
	return text
}

func childrenOf(q *wire.Queue) string {
	if q.Stats.Children == 0 {
		return ""
	}
	return fmt.Sprintf("%d, over which its rate holds", q.Stats.Children)
}

// lanesOf says what holds for each lane, and in how many jobs wait; nothing where only
// jobs wait that name none.
func lanesOf(q *wire.Queue) string {
	rule := ruleOf(&q.Lanes.LaneRule)
	switch {
	case rule != "":
		return fmt.Sprintf("%d with jobs waiting; each %s", q.Stats.Lanes, rule)
	case q.Stats.Lanes > 1 || len(q.Lanes.Overrides) > 0:
		return fmt.Sprintf("%d with jobs waiting", q.Stats.Lanes)
	}
	return ""
}

// ruleOf is a rule in words, empty if it bounds nothing.
func ruleOf(r *queue.LaneRule) string {
	var parts []string
	if !r.Rate.Unlimited() {
		rate := r.Rate.String()
		if r.Burst > 1 {
			rate += fmt.Sprintf(" burst %d", r.Burst)
		}
		parts = append(parts, rate)
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
	return strings.Join(parts, ", ")
}

// maxOverrides is how many are shown; -o json has all.
const maxOverrides = 10

func overridesOf(q *wire.Queue) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(q.Lanes.Overrides)) {
		if len(parts) == maxOverrides {
			parts = append(parts, fmt.Sprintf("and %d more", len(q.Lanes.Overrides)-maxOverrides))
			break
		}
		r := q.Lanes.Overrides[key]
		rule := ruleOf(&r)
		if rule == "" {
			rule = "no bounds"
		}
		parts = append(parts, plain(key)+": "+rule)
	}
	return strings.Join(parts, "; ")
}
