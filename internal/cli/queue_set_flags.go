package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// flagged is a setting under a name of its own.
type flagged struct {
	flag, field string
	value       *string // nil if it was not given
}

// withFlags are the settings given either way, as FIELD=VALUE.
func withFlags(settings []string, flags ...flagged) ([]string, error) {
	given := map[string]bool{}
	for _, s := range settings {
		field, _, _ := strings.Cut(s, "=")
		given[field] = true
	}
	for _, f := range flags {
		if f.value == nil {
			continue
		}
		if given[f.field] {
			return nil, fmt.Errorf("%s and %s= are the same; give one of them", f.flag, f.field)
		}
		settings = append(settings, f.field+"="+*f.value)
	}
	if len(settings) == 0 {
		return nil, errors.New("nothing to set: give settings as FIELD=VALUE, such as rate=14/s")
	}
	return settings, nil
}

// overflowFlags are the settings of the overflow under names of their own. They are no
// environment variables: push has one of the same name, and a variable that is set for
// that must not change queues.
type overflowFlags struct {
	Overflow       *string `env:"-" help:"overflow: what becomes of jobs that find no room, reject or defer." placeholder:"WHAT"`
	MaxAge         *string `env:"-" help:"deferred.max_age: how long a job may be deferred." placeholder:"DURATION"`
	LowWater       *string `env:"-" help:"deferred.low_water: the part of the capacity that jobs which come back may fill, such as 0.5." placeholder:"PART"`
	MaxDeferred    *string `env:"-" help:"deferred.max_jobs: how many may be deferred at a time." placeholder:"N"`
	ReadmitBetween *string `env:"-" help:"deferred.readmit_between: the hours in which jobs come back, such as 22:00-06:00." placeholder:"HH:MM-HH:MM"`
	Timezone       *string `env:"-" help:"deferred.timezone: of those hours, such as Europe/Berlin." placeholder:"ZONE"`
}

func (f *overflowFlags) all() []flagged {
	return []flagged{
		{"--overflow", "overflow", f.Overflow},
		{"--max-age", "deferred.max_age", f.MaxAge},
		{"--low-water", "deferred.low_water", f.LowWater},
		{"--max-deferred", "deferred.max_jobs", f.MaxDeferred},
		{"--readmit-between", "deferred.readmit_between", f.ReadmitBetween},
		{"--timezone", "deferred.timezone", f.Timezone},
	}
}

// laneFlags are those of lanes and of what is in flight. They are no environment variables
// either.
type laneFlags struct {
	MaxInFlight     *string `env:"-" help:"max_in_flight: how many jobs may be leased at a time." placeholder:"N"`
	MaxBytes        *string `env:"-" help:"max_bytes: how much the queue's jobs may take, such as 256MiB; by default a quarter of the store." placeholder:"BYTES"`
	MaxScheduled    *string `env:"-" help:"max_scheduled: how many of the capacity's places scheduled jobs may take." placeholder:"N"`
	Ordered         *bool   `env:"-" negatable:"" help:"ordered: let one job of a lane be in flight at a time, and a failed one hold its lane up."`
	LaneRate        *string `env:"-" help:"lanes.rate: the outflow of each lane, such as 2/s." placeholder:"RATE"`
	LaneBurst       *string `env:"-" help:"lanes.burst: departures of a lane back to back after idleness." placeholder:"N"`
	LaneCapacity    *string `env:"-" help:"lanes.capacity: how many jobs of a lane the queue takes in." placeholder:"N"`
	LaneMaxBytes    *string `env:"-" help:"lanes.max_bytes: how much the jobs of a lane may take, such as 16MiB; by default as much as the queue's." placeholder:"BYTES"`
	LaneMaxInFlight *string `env:"-" help:"lanes.max_in_flight: how many jobs of a lane may be leased at a time." placeholder:"N"`
}

func (f *laneFlags) all() []flagged {
	var ordered *string
	if f.Ordered != nil {
		text := strconv.FormatBool(*f.Ordered)
		ordered = &text
	}
	return []flagged{
		{"--max-in-flight", "max_in_flight", f.MaxInFlight},
		{"--max-bytes", "max_bytes", f.MaxBytes},
		{"--max-scheduled", "max_scheduled", f.MaxScheduled},
		{"--ordered", "ordered", ordered},
		{"--lane-rate", "lanes.rate", f.LaneRate},
		{"--lane-burst", "lanes.burst", f.LaneBurst},
		{"--lane-capacity", "lanes.capacity", f.LaneCapacity},
		{"--lane-max-bytes", "lanes.max_bytes", f.LaneMaxBytes},
		{"--lane-max-in-flight", "lanes.max_in_flight", f.LaneMaxInFlight},
	}
}
