package redisq

import (
	"context"

	"github.com/penstock/penstock/internal/series"
)

var _ series.Samples = (*Engine)(nil)

// PutSample implements series.Samples.
func (e *Engine) PutSample(ctx context.Context, s series.Sample, keep int64) (bool, error) {
	if err := s.Validate(keep); err != nil {
		return false, err
	}
	v, err := e.repeat(ctx, putSampleScript, 0, e.instant(), s.Series, s.Number, s.Data, keep)
	if err != nil {
		return false, err
	}
	return v == int64(1), nil
}

// SamplesSince implements series.Samples.
func (e *Engine) SamplesSince(ctx context.Context, of uint8, after int64) (some []series.Sample, err error) {
	v, err := e.ask(ctx, samplesSinceScript, 0, e.instant(), of, after, series.MaxPageBytes)
	if err != nil {
		return nil, err
	}
	r := list(v)
	for r.more() {
		some = append(some, series.Sample{Series: of, Number: r.int(), Data: []byte(r.text())})
	}
	return some, r.err
}
