// Package unit has durations and sizes in the form that people write.
package unit

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/clip"
)

// Duration is a time.Duration that is written as "30s" in JSON and YAML.
type Duration time.Duration

// D returns d as a time.Duration.
func (d Duration) D() time.Duration { return time.Duration(d) }

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes d as time.Duration.String does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText parses what time.ParseDuration accepts.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("%s is not a duration such as 250ms, 30s or 24h", clip.Quote(string(b), 40))
	}
	*d = Duration(v)
	return nil
}
