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

// Lanes is what a queue's owner decides about the lanes of it. A rule holds for each lane
// by itself, within what holds for the queue; it does not hold for the jobs that
// name no lane.
type Lanes struct {
	LaneRule
	// Overrides are rules for single keys, in place of the one above, all of it.
	Overrides map[string]LaneRule `json:"overrides,omitempty"`
}

// LaneRule bounds a lane. Its zero fields bound nothing.
type LaneRule struct {
	Rate leaky.Rate `json:"rate,omitzero"`
	// Burst is how many may leave back to back after idleness; 0 means 1.
	Burst int64 `json:"burst,omitzero"`
	// Capacity is how many jobs of the lane the queue takes in.
	Capacity int64 `json:"capacity,omitzero"`
	// MaxBytes is how much those jobs may take together, counted as those of a queue.
	MaxBytes unit.Bytes `json:"max_bytes,omitzero"`
	// MaxInFlight is how many of them may be leased at a time.
	MaxInFlight int64 `json:"max_in_flight,omitzero"`
}

const maxLaneOverrides = 1000

// Pacer returns the lane's pacing rule. Its horizon is the queue's, for what was granted
// ahead is so in its lane as well; nothing is granted ahead of what the lane allows, or
// others would wait for a departure that they could have.
func (r LaneRule) Pacer() leaky.Pacer {
	return leaky.Pacer{Rate: r.Rate, Burst: max(1, r.Burst), Horizon: Horizon}
}

// Of returns the rule for a lane.
func (l *Lanes) Of(key string) LaneRule {
	if key == "" {
		return LaneRule{}
	}
	if r, ok := l.Overrides[key]; ok {
		return r
	}
	return l.LaneRule
}

// laneSettings is the table of the settings of each lane.
var laneSettings = []setting[LaneRule]{
	{
		name: "rate", at: func(r *LaneRule) any { return &r.Rate },
		absent: "unlimited", example: "2/s",
		doc: "The outflow of each lane, within the queue's. A lane that waits for its own rate keeps no other from " +
			"going.",
	},
	{
		name: "burst", at: func(r *LaneRule) any { return &r.Burst },
		absent: "1", max: leaky.MaxBurst,
		doc:   "How many of a lane may leave back to back after idleness.",
		check: func(r *LaneRule, field string) error { return invalid.In(field, r.Pacer().Validate()) },
	},
	{
		name: "capacity", at: func(r *LaneRule) any { return &r.Capacity },
		absent: "the queue's", max: MaxCapacity,
		doc: "How many jobs of a lane the queue takes in: waiting, scheduled, leased and held together.",
	},
	{
		name: "max_bytes", at: func(r *LaneRule) any { return &r.MaxBytes },
		absent: "the queue's", min: leastMaxBytes, max: 1 << 36,
		doc: "How many bytes the jobs of a lane may take together, counted as max_bytes of the queue.",
	},
	{
		name: "max_in_flight", at: func(r *LaneRule) any { return &r.MaxInFlight },
		absent: "no limit", max: MaxMaxInFlight,
		doc: "How many jobs of a lane may be leased at a time, over all drainers.",
	},
}

var laneOverrides = Setting{
	Name: "lanes.overrides", Type: "object",
	Doc: "Settings of single lanes by key, at most 1,000. Each replaces those above as a whole:" +
		" what it leaves out is not bounded.",
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
	return nil
}

// LaneDigest stands for a lane's key where its length would matter. Two keys with the same
// one are one lane; nobody can make such keys.
type LaneDigest [16]byte

// DigestLane returns the digest of a key: of the empty one the zero digest, of the
// others the beginning of their SHA-256.
func DigestLane(key string) (d LaneDigest) {
	if key != "" {
		sum := sha256.Sum256([]byte(key))
		copy(d[:], sum[:])
	}
	return d
}
