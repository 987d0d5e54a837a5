package queue

import (
	"crypto/sha256"
	"maps"
	"slices"

	"github.com/penstock/penstock/internal/jsondepth"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/unit"
)

// Lanes bounds the lanes of a queue. The rule applies to each lane on its own, within the limits of the queue. It does
// not apply to jobs without a lane.
type Lanes struct {
	LaneRule
	// Overrides replaces the whole rule for single keys.
	Overrides map[string]LaneRule `json:"overrides,omitempty"`
}

// LaneRule bounds a lane. A zero field is no bound.
type LaneRule struct {
	Rate leaky.Rate `json:"rate,omitzero"`
	// Burst is how many jobs may leave back to back after idleness; 0 means 1.
	Burst int64 `json:"burst,omitzero"`
	// Capacity is how many jobs of the lane the queue accepts.
	Capacity int64 `json:"capacity,omitzero"`
	// MaxBytes is how many bytes the jobs of the lane may take, counted as for a queue.
	MaxBytes unit.Bytes `json:"max_bytes,omitzero"`
	// MaxInFlight is how many jobs of the lane may be leased at a time.
	MaxInFlight int64 `json:"max_in_flight,omitzero"`
	// Hours are when jobs of the lane leave, within the hours of the queue.
	Hours Hours `json:"hours,omitzero"`
	// Limits are rates in units other than jobs. The limits of the queue apply as well.
	Limits LaneLimits `json:"limits,omitzero"`
	// Weight is the lane's share of the queue in relation to the other lanes' weights; 0 means 1.
	Weight int64 `json:"weight,omitzero"`
}

// MaxLaneHours is how many different hours the lanes of a queue may have.
const MaxLaneHours = 50

// MaxWeight is the greatest weight of a lane or a queue.
const MaxWeight = 1000

const maxLaneOverrides = 1000

// Pacer returns the lane's pacing rule. It has the queue's horizon because a departure granted ahead by the queue also
// counts in its lane. Nothing is granted ahead of what the lane allows: other lanes would wait for a departure that
// they could have.
func (r LaneRule) Pacer() leaky.Pacer {
	return leaky.Pacer{Rate: r.Rate, Burst: max(1, r.Burst), Horizon: Horizon}
}

// Share returns the weight of the lane.
func (r *LaneRule) Share() int64 { return max(1, r.Weight) }

// HasRate reports whether the rule has a rate, in jobs or in another unit.
func (r *LaneRule) HasRate() bool { return !r.Rate.Unlimited() || r.Limits.On() }

// Paces reports whether the rule delays jobs, by rates or by the jobs in flight.
func (r *LaneRule) Paces() bool { return r.HasRate() || r.MaxInFlight > 0 }

// Of returns the rule of a lane.
func (l *Lanes) Of(key string) LaneRule {
	if key == "" {
		return LaneRule{}
	}
	if r, ok := l.Overrides[key]; ok {
		return r
	}
	return l.LaneRule
}

// laneSettings is the table of a lane's settings.
var laneSettings = []setting[LaneRule]{
	{
		name: "rate", at: func(r *LaneRule) any { return &r.Rate },
		absent: "unlimited", example: "2/s",
		doc: "Outflow of each lane, within the queue's. A lane that waits for its own rate does not hold up others.",
	},
	{
		name: "burst", at: func(r *LaneRule) any { return &r.Burst },
		absent: "1", max: leaky.MaxBurst,
		doc:   "Maximum number of jobs of a lane that leave back to back after idleness.",
		check: func(r *LaneRule, field string) error { return invalid.In(field, r.Pacer().Validate()) },
	},
	{
		name: "capacity", at: func(r *LaneRule) any { return &r.Capacity },
		absent: "the queue's", max: MaxCapacity,
		doc: "Maximum number of jobs of a lane: waiting, scheduled, leased and held together.",
	},
	{
		name: "max_bytes", at: func(r *LaneRule) any { return &r.MaxBytes },
		absent: "the queue's", min: leastMaxBytes, max: 1 << 36,
		doc: "Maximum size of a lane's jobs, counted as for the queue's max_bytes.",
	},
	{
		name: "max_in_flight", at: func(r *LaneRule) any { return &r.MaxInFlight },
		absent: "no limit", max: MaxMaxInFlight,
		doc: "Maximum number of jobs of a lane leased at a time, over all drainers.",
	},
	{
		name: "hours", at: func(r *LaneRule) any { return &r.Hours },
		absent: "the queue's",
		doc:    "Times at which jobs of a lane may leave, within the queue's hours. Has the fields of `hours`.",
		check: func(r *LaneRule, field string) error {
			_, err := r.Hours.Schedule(field)
			return err
		},
	},
	{
		name: "limits", at: func(r *LaneRule) any { return &r.Limits },
		absent: "none", items: describe("lanes.limits[].", laneLimitSettings),
		doc: "Rates of each lane in units other than jobs, at most 4, beside the limits of the queue." +
			" A lane that waits for one of them does not hold up others.",
		check: func(r *LaneRule, field string) error { return r.Limits.validate(field) },
	},
	{
		name: "weight", at: func(r *LaneRule) any { return &r.Weight },
		absent: "1", min: 1, max: MaxWeight,
		doc: "Share of a lane in the queue's rate, in proportion to the other lanes' weights." +
			" What a lane does not use, the others get. Jobs without a lane have the weight 1.",
	},
}

var laneOverrides = Setting{
	Name: "lanes.overrides", Type: "object",
	Doc: "Settings of single lanes by key, at most 1,000. Each replaces the settings above as a whole:" +
		" settings left out are unlimited, the weight is 1, and there are no hours.",
}

func (l *Lanes) validate(field string) error {
	if err := validate(&l.LaneRule, laneSettings, field+"."); err != nil {
		return err
	}
	field += ".overrides"
	if n := len(l.Overrides); n > maxLaneOverrides {
		return invalid.Errorf(field, "", "are %d, the limit is %d", n, maxLaneOverrides)
	}
	for _, key := range slices.Sorted(maps.Keys(l.Overrides)) {
		if err := ValidateLane(key); err != nil || key == "" {
			return invalid.Errorf(field, key, "is not the key of a lane: 1 to %d bytes of UTF-8", MaxLaneBytes)
		}
		rule := l.Overrides[key]
		if err := validate(&rule, laneSettings, field+"."+jsondepth.ShortPath(key)+"."); err != nil {
			return err
		}
	}
	if n := len(l.AllHours()); n > MaxLaneHours {
		return invalid.Errorf(field, "", "have %d different hours, the limit is %d", n, MaxLaneHours)
	}
	return nil
}

// AllHours returns the different hours of the lanes: first of the rule, if it has any, then of the overrides, by
// their keys.
func (l *Lanes) AllHours() (all []Hours) {
	add := func(h Hours) {
		if h.On() && !slices.Contains(all, h) {
			all = append(all, h)
		}
	}
	add(l.LaneRule.Hours)
	for _, key := range slices.Sorted(maps.Keys(l.Overrides)) {
		add(l.Overrides[key].Hours)
	}
	return all
}

// LaneDigest stands for a lane's key wherever the key's length would matter. Two keys with the same digest would be
// one lane; producing them is infeasible.
type LaneDigest [16]byte

// Before returns the digest just before d.
func (d LaneDigest) Before() LaneDigest {
	for i := len(d) - 1; i >= 0; i-- {
		if d[i]--; d[i] != 0xff {
			break
		}
	}
	return d
}

// DigestLane returns the digest of a key: the first bytes of its SHA-256, or the zero digest of the empty key.
func DigestLane(key string) (d LaneDigest) {
	if key != "" {
		sum := sha256.Sum256([]byte(key))
		copy(d[:], sum[:])
	}
	return d
}
