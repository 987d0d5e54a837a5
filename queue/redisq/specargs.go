package redisq

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/queue"
)

// specArgs returns the settings of a spec as create.lua reads them; now is what calendars begin at.
func specArgs(s *queue.Spec, now time.Time) ([]any, error) {
	limits, err := limitArgs(s, now)
	if err != nil {
		return nil, err
	}
	n, d := s.Rate.Fraction()
	args := slices.Concat([]any{
		"n", n, "d", d, "burst", s.Burst, "pull", flag(s.Pull), "adapt", adaptRule(s),
	}, limits, laneArgs(s), laneHoursArgs(s, now))
	settings := specFields(s)
	return slices.Concat([]any{len(args)}, args, []any{len(settings)}, settings), nil
}

// specFields returns the settings that scripts use, and values that follow from them, by name. The queue keeps
// them as fields, except for empty ones.
func specFields(s *queue.Spec) []any {
	return append(s.Fields(),
		"mark", s.Mark(), "deferred.max_age.text", s.Deferred.MaxAge.String(), "circuit", circuitField(s),
		"lanes", packRule(s.Lanes.LaneRule, s.Lanes.AllHours()), "lanes.overrides", len(s.Lanes.Overrides),
		"regime", regime(s), "estimates", s.Estimates(), "lanes.units", strings.Join(s.Lanes.Units(), " "),
	)
}

// laneWeights returns the lanes whose weight differs from that of other lanes, as eta.lua reads them: of each the
// digest, and the weight in two bytes.
func laneWeights(l *queue.Lanes) string {
	var b []byte
	for _, key := range slices.Sorted(maps.Keys(l.Overrides)) {
		if rule := l.Overrides[key]; rule.Share() != l.Share() {
			lane := queue.DigestLane(key)
			b = binary.BigEndian.AppendUint16(append(b, lane[:]...), uint16(rule.Share()))
		}
	}
	return string(b)
}

// laneArgs returns the rules of single lanes.
func laneArgs(s *queue.Spec) (args []any) {
	hours := s.Lanes.AllHours()
	for key, rule := range s.Lanes.Overrides {
		lane := queue.DigestLane(key)
		own := packRule(rule, hours)
		if own == "" {
			own = unbounded
		}
		args = append(args, "lane:"+string(lane[:]), own)
	}
	if weights := laneWeights(&s.Lanes); weights != "" {
		args = append(args, "lane:weights", weights)
	}
	return args
}

// circuitField returns the circuit of a spec as receiver.lua reads it; empty if it is off.
func circuitField(s *queue.Spec) string {
	c := &s.Circuit
	if c.Off {
		return ""
	}
	return fmt.Sprint(
		c.Failures, c.MinProbe.D().Microseconds(), c.MaxProbe.D().Microseconds(), c.Slow.D().Microseconds(),
	)
}

// unbounded stands for a rule that bounds nothing, where a rule is required.
const unbounded = "-"

// packRule returns the rule of a lane as lanes.lua reads it, empty if it bounds nothing. If it has hours or limits, the
// number of its hours in the list of all lanes' hours follows, or 0, and then the limits.
func packRule(r queue.LaneRule, hours []queue.Hours) string {
	if r == (queue.LaneRule{}) {
		return ""
	}
	n, d := r.Rate.Fraction()
	var whole [8]byte
	binary.BigEndian.PutUint64(whole[:], uint64(d))
	b := binary.BigEndian.AppendUint32(nil, uint32(n))
	b = append(b, whole[1:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(max(1, r.Burst)))
	b = binary.BigEndian.AppendUint32(b, uint32(r.Capacity))
	b = binary.BigEndian.AppendUint32(b, uint32(r.MaxInFlight))
	binary.BigEndian.PutUint64(whole[:], uint64(r.MaxBytes))
	b = append(b, whole[1:]...)
	b = binary.BigEndian.AppendUint16(b, uint16(r.Share()))
	if r.Hours.On() || r.Limits.On() {
		b = binary.BigEndian.AppendUint16(b, uint16(slices.Index(hours, r.Hours)+1))
	}
	for _, l := range r.Limits.List() {
		name := limitName(&l)
		n, d := l.Rate.Fraction()
		binary.BigEndian.PutUint64(whole[:], uint64(d))
		b = append(append(b, byte(len(name))), name...)
		b = append(binary.BigEndian.AppendUint32(b, uint32(n)), whole[1:]...)
		b = binary.BigEndian.AppendUint32(b, uint32(max(1, l.Burst)))
	}
	return string(b)
}

// regime returns a digest of all settings of lanes. When it changes, each lane must be looked at again.
func regime(s *queue.Spec) string {
	if !s.Ordered && s.Lanes.LaneRule == (queue.LaneRule{}) && len(s.Lanes.Overrides) == 0 {
		return ""
	}
	text, _ := json.Marshal(struct {
		Ordered bool
		Lanes   queue.Lanes
	}{s.Ordered, s.Lanes}) // it cannot fail for a valid spec
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
