package queuetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/series"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

// putSample adds a sample and reports whether it was added.
func (r *rig) putSample(of uint8, number int64, data string, keep int64) bool {
	r.Helper()
	added, err := r.e.PutSample(r.ctx, series.Sample{Series: of, Number: number, Data: []byte(data)}, keep)
	r.check(err)
	return added
}

// samplesOf reads a whole series.
func samplesOf(ctx context.Context, e queue.Engine, of uint8, after int64) (all []series.Sample, err error) {
	for {
		some, err := e.SamplesSince(ctx, of, after)
		if err != nil || len(some) == 0 {
			return all, err
		}
		all, after = append(all, some...), some[len(some)-1].Number
	}
}

// checkSamples compares the samples of a series after a number, written NUMBER=DATA.
func (r *rig) checkSamples(of uint8, after int64, want ...string) {
	r.Helper()
	all, err := samplesOf(r.ctx, r.e, of, after)
	r.check(err)
	var got []string
	for _, s := range all {
		got = append(got, fmt.Sprintf("%d=%s", s.Number, s.Data))
	}
	if !slices.Equal(got, want) {
		r.Errorf("series %d after %d: %q, want %q", of, after, got, want)
	}
}

var sampleRules = []rule{
	{"a series keeps its samples in order", func(r *rig) {
		r.checkSamples(1, 0)
		var want []string
		for n := range int64(series.MaxKept) {
			number := 95 + n // of two and three digits
			if !r.putSample(1, number, fmt.Sprint("at ", n), series.MaxKept) {
				r.Errorf("%d was not added", n)
			}
			want = append(want, fmt.Sprintf("%d=at %d", number, n))
		}
		r.checkSamples(1, 0, want...)
	}},
	{"only a higher number is added", func(r *rig) {
		for _, c := range []struct {
			number int64
			added  bool
		}{{7, true}, {7, false}, {6, false}, {8, true}, {7, false}} {
			if got := r.putSample(1, c.number, fmt.Sprint(c.number, c.added), 10); got != c.added {
				r.Errorf("%d: added %v", c.number, got)
			}
		}
		r.checkSamples(1, 0, "7=7 true", "8=8 true")
		r.checkSamples(1, 7, "8=8 true")
		r.checkSamples(1, 8)
	}},
	{"a sample drops those that are too old", func(r *rig) {
		for n := range int64(10) {
			r.putSample(1, n+1, "x", 3)
		}
		r.checkSamples(1, 0, "8=x", "9=x", "10=x")
		r.putSample(1, 12, "x", 3)
		r.checkSamples(1, 0, "10=x", "12=x")
	}},
	{"series are apart", func(r *rig) {
		r.putSample(0, 5, "a", 1)
		r.putSample(1, 5, "b", 1)
		r.putSample(255, series.MaxNumber, "c", 1)
		r.checkSamples(0, 0, "5=a")
		r.checkSamples(1, 0, "5=b")
		r.checkSamples(255, 0, fmt.Sprint(series.MaxNumber, "=c"))
		r.checkSamples(2, 0)
	}},
	{"large samples are kept byte by byte, and come in pages", func(r *rig) {
		large := bytes.Repeat([]byte("0123456789abcdef"), series.MaxBytes/16)
		for n := range int64(5) {
			large[0], large[1] = byte(n), 0xff
			r.putSample(3, n+1, string(large), 5)
		}
		page, err := r.e.SamplesSince(r.ctx, 3, 0)
		r.check(err)
		if len(page) != series.MaxPageBytes/series.MaxBytes {
			r.Errorf("a page has %d samples", len(page))
		}
		all, err := samplesOf(r.ctx, r.e, 3, 0)
		r.check(err)
		if len(all) != 5 {
			r.Fatalf("%d samples", len(all))
		}
		for n, s := range all {
			if large[0] = byte(n); !bytes.Equal(s.Data, large) {
				r.Errorf("sample %d differs", s.Number)
			}
		}
		r.putSample(3, 6, "small", 1)
		r.checkSamples(3, 0, "6=small")
	}},
	{"invalid samples are refused", func(r *rig) {
		for _, c := range []struct {
			field string
			s     series.Sample
			keep  int64
		}{
			{"number", series.Sample{Number: 0, Data: []byte("x")}, 1},
			{"number", series.Sample{Number: series.MaxNumber + 1, Data: []byte("x")}, 1},
			{"keep", series.Sample{Number: 1, Data: []byte("x")}, 0},
			{"keep", series.Sample{Number: 1, Data: []byte("x")}, series.MaxKept + 1},
			{"data", series.Sample{Number: 1}, 1},
			{"data", series.Sample{Number: 1, Data: []byte(strings.Repeat("x", series.MaxBytes+1))}, 1},
		} {
			added, err := r.e.PutSample(r.ctx, c.s, c.keep)
			var is *invalid.Error
			if added || !errors.As(err, &is) || is.Field != c.field {
				r.Errorf("%s: %v, %v", c.field, added, err)
			}
		}
		r.checkSamples(0, 0)
	}},
}
