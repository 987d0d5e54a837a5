package queuecmd

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"
)

// settingFlags are settings that have flags. The table of settings has their help. They are not read from the
// environment: push has a flag of the same name, and a variable that is set for push must not change queues.
type settingFlags struct {
	Overflow        *string `env:"-" setting:"overflow" placeholder:"WHAT"`
	MaxAge          *string `env:"-" setting:"deferred.max_age" placeholder:"DURATION"`
	LowWater        *string `env:"-" setting:"deferred.low_water" placeholder:"PART"`
	MaxDeferred     *string `env:"-" setting:"deferred.max_jobs" placeholder:"N"`
	ReadmitBetween  *string `env:"-" setting:"deferred.readmit_between" placeholder:"HH:MM-HH:MM"`
	Timezone        *string `env:"-" setting:"deferred.timezone" placeholder:"ZONE"`
	MaxInFlight     *string `env:"-" setting:"max_in_flight" placeholder:"N"`
	MaxBytes        *string `env:"-" setting:"max_bytes" placeholder:"BYTES"`
	MaxScheduled    *string `env:"-" setting:"max_scheduled" placeholder:"N"`
	Ordered         *bool   `env:"-" setting:"ordered" negatable:""`
	LaneRate        *string `env:"-" setting:"lanes.rate" placeholder:"RATE"`
	LaneBurst       *string `env:"-" setting:"lanes.burst" placeholder:"N"`
	LaneCapacity    *string `env:"-" setting:"lanes.capacity" placeholder:"N"`
	LaneMaxBytes    *string `env:"-" setting:"lanes.max_bytes" placeholder:"BYTES"`
	LaneMaxInFlight *string `env:"-" setting:"lanes.max_in_flight" placeholder:"N"`
}

// ExplainSettings sets the help of the flags that are settings.
func ExplainSettings(node *kong.Node) {
	for _, f := range node.Flags {
		if name := f.Tag.Get("setting"); name != "" {
			f.Help = name + ": " + settingDoc(name)
		}
	}
	for _, child := range node.Children {
		ExplainSettings(child)
	}
}

// withFlags adds the flags that are settings to the settings, as FIELD=VALUE.
func withFlags(settings []string, flags []*kong.Flag) ([]string, error) {
	given := map[string]bool{}
	for _, s := range settings {
		field, _, _ := strings.Cut(s, "=")
		given[field] = true
	}
	for _, f := range flags {
		field := f.Tag.Get("setting")
		if field == "" || f.Target.IsNil() {
			continue
		}
		if given[field] {
			return nil, fmt.Errorf("--%s and %s= are the same setting; use only one", f.Name, field)
		}
		settings = append(settings, fmt.Sprintf("%s=%v", field, reflect.Indirect(f.Target)))
	}
	return settings, nil
}
