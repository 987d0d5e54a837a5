package machine

import (
	"bytes"
	"context"
	"encoding/binary"

	"github.com/penstock/penstock/internal/series"
)

// sampleKey is the key of a sample: its series in the first byte, then its number.
func sampleKey(of uint8, number int64) uint64 { return uint64(of)<<56 | uint64(number) }

// loadSamples reads the numbers of all samples, which order them.
func (l *loader) loadSamples(ctx context.Context) error {
	return l.each(ctx, samplesTable, func(k uint64, _ []byte) error {
		of := uint8(k >> 56)
		l.samples[of] = append(l.samples[of], int64(k&(1<<56-1)))
		return nil
	})
}

// PutSample adds a sample to its series and returns the commit that the answer waits for. Errors: see series.Samples.
func (m *Machine) PutSample(s series.Sample, keep int64) (added bool, wait uint64, err error) {
	if err := s.Validate(keep); err != nil {
		return false, 0, err
	}
	present := m.samples[s.Series]
	switch n := len(present); {
	case n > 0 && present[n-1] >= s.Number:
		return false, m.lastWait(), nil
	case m.Full != nil:
		return false, 0, m.Full
	}
	for len(present) > 0 && present[0] <= s.Number-keep {
		m.current.drop(samplesTable, sampleKey(s.Series, present[0]))
		present = present[1:]
	}
	m.current.put(samplesTable, sampleKey(s.Series, s.Number), bytes.Clone(s.Data))
	m.samples[s.Series] = append(present, s.Number)
	return true, m.wait(), nil
}

// ReadSamples returns samples of a series after a number; see series.Samples.
func ReadSamples(tx Transaction, of uint8, after int64) (some []series.Sample, err error) {
	size := 0
	c := tx.Table(samplesTable).Cursor()
	for k, v := c.Seek(key(sampleKey(of, max(0, after)+1))); k != nil && k[0] == of; k, v = c.Next() {
		if size += len(v); len(some) > 0 && size > series.MaxPageBytes {
			break
		}
		number := int64(binary.BigEndian.Uint64(k) & (1<<56 - 1))
		some = append(some, series.Sample{Series: of, Number: number, Data: bytes.Clone(v)})
	}
	return some, nil
}
