package queue

import (
	"fmt"
	"slices"
	"time"
	"unique"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock/penstock/queue/invalid"
)

// LaneLimits are the limits of a lane in units other than jobs. They are comparable, and small, because most rules have
// none. The zero LaneLimits do not limit anything.
type LaneLimits struct {
	of unique.Handle[laneLimits]
}

// laneLimits is a list of limits. If it is too long, only its length is right, for the error.
type laneLimits struct {
	first [MaxLimits]Limit
	all   int
}

// LimitLane returns a list of limits as LaneLimits.
func LimitLane(list ...Limit) LaneLimits {
	if len(list) == 0 {
		return LaneLimits{}
	}
	v := laneLimits{all: len(list)}
	copy(v.first[:], list)
	return LaneLimits{unique.Make(v)}
}

// On reports whether there are limits.
func (l LaneLimits) On() bool { return l != LaneLimits{} }

// List returns the limits; nil if there are none.
func (l LaneLimits) List() []Limit {
	if !l.On() {
		return nil
	}
	v := l.of.Value()
	return slices.Clone(v.first[:min(v.all, MaxLimits)])
}

// MarshalJSON writes a list.
func (l LaneLimits) MarshalJSON() ([]byte, error) { return json.Marshal(l.List()) }

// UnmarshalJSONFrom reads a list, as strictly as the decoder says.
func (l *LaneLimits) UnmarshalJSONFrom(in *jsontext.Decoder) error {
	var list []Limit
	err := json.UnmarshalDecode(in, &list)
	*l = LimitLane(list...)
	return err
}

// UnmarshalJSON reads a list.
func (l *LaneLimits) UnmarshalJSON(text []byte) error {
	var list []Limit
	err := json.Unmarshal(text, &list)
	*l = LimitLane(list...)
	return err
}

// laneLimitSettings is the table of a lane limit's settings.
var laneLimitSettings = []setting[Limit]{
	{
		name: "unit", at: func(l *Limit) any { return &l.Unit }, example: "tokens", required: true,
		doc: "What the limit counts, other than jobs.",
	},
	{
		name: "rate", at: func(l *Limit) any { return &l.Rate }, example: "20000/m", required: true,
		doc: "Maximum cost of each lane over time.",
	},
	{
		name: "burst", at: func(l *Limit) any { return &l.Burst }, absent: "1", max: MaxUnitCost,
		doc: "Maximum cost of jobs of a lane that leave back to back after idleness.",
	},
}

func (l LaneLimits) validate(field string) error {
	if l.On() && l.of.Value().all > MaxLimits {
		return invalid.Errorf(field, "", "has %d entries, the limit is %d", l.of.Value().all, MaxLimits)
	}
	list := l.List()
	for i := range list {
		if err := list[i].validateOfLane(fmt.Sprintf("%s.%d", field, i)); err != nil {
			return err
		}
	}
	return nil
}

func (l *Limit) validateOfLane(field string) error {
	switch {
	case l.HasQuota():
		return invalid.Errorf(field+".quota", l.Quota.String(),
			`is not possible for lanes; give a rate such as "20000/m", or set the quota in the limits of the queue`)
	case l.Counts() == "":
		return invalid.Errorf(field+".unit", l.Unit,
			"must be a unit other than jobs, such as tokens; set the rate in jobs with lanes.rate")
	}
	return l.validate(field)
}

// eachLimit calls f with the limits of each rule until f returns true. Equal limits that follow each other count once.
func (l *Lanes) eachLimit(f func(*Limit) bool) bool {
	var last LaneLimits
	in := func(limits LaneLimits) bool {
		if limits == last || !limits.On() {
			return false
		}
		last = limits
		list := limits.of.Value()
		for i := range list.first[:min(list.all, MaxLimits)] {
			if f(&list.first[i]) {
				return true
			}
		}
		return false
	}
	if in(l.Limits) {
		return true
	}
	for _, rule := range l.Overrides {
		if in(rule.Limits) {
			return true
		}
	}
	return false
}

// Count reports whether a limit of any lane counts a unit.
func (l *Lanes) Count(unit string) bool {
	return l.eachLimit(func(l *Limit) bool { return l.Unit == unit })
}

// Units returns the units that limits of lanes count, sorted.
func (l *Lanes) Units() (units []string) {
	l.eachLimit(func(l *Limit) bool {
		if !slices.Contains(units, l.Unit) {
			units = append(units, l.Unit)
		}
		return false
	})
	slices.Sort(units)
	return units
}

// BudgetStates returns how much of each limit is in use, by the state of a lane at an instant. It returns nil if the
// limits have changed since.
func (l LaneLimits) BudgetStates(lane *LaneInfo, at time.Time) (states []BudgetState) {
	list := l.List()
	if len(list) != len(lane.Limits) {
		return nil
	}
	for n := range list {
		states = append(states, list[n].budgetState(lane.Limits[n], at))
	}
	return states
}

// validateUnits returns an error if the limits of the queue and of its lanes count too many units.
func (s *Spec) validateUnits(field string) error {
	units := s.Lanes.Units()
	if len(units) == 0 {
		return nil
	}
	for i := range s.Limits {
		if unit := s.Limits[i].Counts(); unit != "" && !slices.Contains(units, unit) {
			units = append(units, unit)
		}
	}
	if len(units) > MaxLimits {
		return invalid.Errorf(field, "", "count %d units together with the limits of the queue, the limit is %d: %v",
			len(units), MaxLimits, units)
	}
	return nil
}
