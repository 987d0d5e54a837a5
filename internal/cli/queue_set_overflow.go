package cli

import (
	"errors"
	"fmt"
	"strings"
)

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

// all are the settings given either way, as FIELD=VALUE.
func (f *overflowFlags) all(settings []string) ([]string, error) {
	given := map[string]bool{}
	for _, s := range settings {
		field, _, _ := strings.Cut(s, "=")
		given[field] = true
	}
	for _, flag := range []struct {
		name, field string
		value       *string
	}{
		{"--overflow", "overflow", f.Overflow},
		{"--max-age", "deferred.max_age", f.MaxAge},
		{"--low-water", "deferred.low_water", f.LowWater},
		{"--max-deferred", "deferred.max_jobs", f.MaxDeferred},
		{"--readmit-between", "deferred.readmit_between", f.ReadmitBetween},
		{"--timezone", "deferred.timezone", f.Timezone},
	} {
		if flag.value == nil {
			continue
		}
		if given[flag.field] {
			return nil, fmt.Errorf("%s and %s= are the same; give one of them", flag.name, flag.field)
		}
		settings = append(settings, flag.field+"="+*flag.value)
	}
	if len(settings) == 0 {
		return nil, errors.New("nothing to set: give settings as FIELD=VALUE, such as rate=14/s")
	}
	return settings, nil
}
