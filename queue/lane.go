package queue

import (
	"crypto/sha256"
	"maps"
	"slices"

	"github.com/penstock/penstock/leaky"
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
	// MaxBytes is how much those jobs may take together, by SizeOf.
	MaxBytes Bytes `json:"max_bytes,omitzero"`
	// MaxInFlight is how many of them may be leased at a time.
	MaxInFlight int64 `json:"max_in_flight,omitzero"`
}

// MaxLaneOverrides is the most overrides of a spec.
const MaxLaneOverrides = 1000

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

func (l *Lanes) validate() error {
	if err := l.LaneRule.validate("lanes"); err != nil {
		return err
	}
	if n := len(l.Overrides); n > MaxLaneOverrides {
		return fieldErr("lanes.overrides", "", "are %d, the limit is %d", n, MaxLaneOverrides)
	}
	for _, key := range slices.Sorted(maps.Keys(l.Overrides)) {
		if err := ValidateLane(key); err != nil || key == "" {
			return fieldErr("lanes.overrides", key, "is not the key of a lane: 1 to %d bytes of UTF-8", MaxLaneBytes)
		}
		if err := l.Overrides[key].validate("lanes.overrides." + shortPath(key)); err != nil {
			return err
		}
	}
	return nil
}

func (r LaneRule) validate(field string) error {
	if err := within(field+".burst", r.Burst, 0, leaky.MaxBurst); err != nil {
		return err
	}
	if err := r.Pacer().Validate(); err != nil {
		return fieldErr(field+".burst", "", "%v", err)
	}
	if err := within(field+".capacity", r.Capacity, 0, MaxCapacity); err != nil {
		return err
	}
	if err := validateMaxBytes(field+".max_bytes", r.MaxBytes, MostLaneMaxBytes); err != nil {
		return err
	}
	return within(field+".max_in_flight", r.MaxInFlight, 0, MaxMaxInFlight)
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
