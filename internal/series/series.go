// Package series defines the numbered samples that a store keeps for a while, such as counts of all queues.
package series

import (
	"context"
	"strconv"

	"github.com/penstock/penstock/queue/invalid"
)

// Sample is an entry of a series. The store does not interpret it.
type Sample struct {
	Series uint8
	Number int64 // from 1; grows with time
	Data   []byte
}

// Samples stores series. All of them live in partition 0.
type Samples interface {
	// PutSample adds a sample to its series and reports whether it did: only a number above all present ones is added.
	// So of several processes that write the same series, the first one counts, and a repeated call changes nothing. It
	// drops the samples of the series numbered Number-keep or lower; keep is 1 to MaxKept. Errors also: an
	// *invalid.Error.
	PutSample(ctx context.Context, s Sample, keep int64) (added bool, err error)
	// SamplesSince returns samples of a series with numbers above after, in order: at least one if there is one, and
	// about MaxPageBytes at most. An empty result means that no more follow.
	SamplesSince(ctx context.Context, series uint8, after int64) ([]Sample, error)
}

// Bounds of series.
const (
	MaxBytes     = 512 << 10 // of one sample
	MaxKept      = 64        // samples of one series
	MaxNumber    = 1 << 50
	MaxPageBytes = 1 << 20
)

// Validate checks a sample to be put. Its error is an *invalid.Error.
func (s *Sample) Validate(keep int64) error {
	switch {
	case s.Number < 1 || s.Number > MaxNumber:
		return invalid.Errorf("number", strconv.FormatInt(s.Number, 10), "must be from 1 to %d", MaxNumber)
	case keep < 1 || keep > MaxKept:
		return invalid.Errorf("keep", strconv.FormatInt(keep, 10), "must be from 1 to %d", MaxKept)
	case len(s.Data) == 0 || len(s.Data) > MaxBytes:
		return invalid.Errorf("data", "", "has %d bytes: must have 1 to %d", len(s.Data), MaxBytes)
	}
	return nil
}
