package redisq_test

import (
	"errors"
	"testing"

	"github.com/penstock/penstock/internal/series"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
)

// A store that is nearly out of memory takes no samples, keeps those it has, and takes more when there is room.
func TestSamplesWithoutMemory(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	v := open(t, s.Client(), redisq.Options{Init: true})
	put := func(number int64) (bool, error) {
		return v.e.PutSample(v.ctx, series.Sample{Series: 1, Number: number, Data: []byte("x")}, 10)
	}
	if added, err := put(1); !added || err != nil {
		t.Fatal(added, err)
	}
	limit := func(most string) {
		t.Helper()
		if err := s.Client().ConfigSet(v.ctx, "maxmemory", most).Err(); err != nil {
			t.Fatal(err)
		}
	}
	limit("100000")    // less than the server uses
	number := int64(1) // memory is looked at once a second, so a few more are added
	await.Until(t, "the store is full", func() bool {
		number++
		_, err := put(number)
		return errors.Is(err, queue.ErrStoreFull)
	})
	if all, err := v.e.SamplesSince(v.ctx, 1, 0); err != nil || len(all) == 0 || all[len(all)-1].Number != number-1 {
		t.Errorf("%+v, %v", all, err)
	}
	limit("0")
	await.Until(t, "there is room", func() bool {
		added, err := put(number + 1)
		return added && err == nil
	})
}

// What is not ours at the key of a series stops the calls, and nothing else.
func TestPlantedSamples(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	v := open(t, s.Client(), redisq.Options{Init: true, Partitions: 1})
	if err := s.Client().Set(v.ctx, "ps{0}Z:1", "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := v.e.PutSample(v.ctx, series.Sample{Series: 1, Number: 1, Data: []byte("x")}, 10); !errors.Is(
		err, queue.ErrCorrupt,
	) {
		t.Errorf("put: %v", err)
	}
	if _, err := v.e.SamplesSince(v.ctx, 1, 0); !errors.Is(err, queue.ErrCorrupt) {
		t.Errorf("read: %v", err)
	}
	if added, err := v.e.PutSample(v.ctx, series.Sample{Series: 2, Number: 1, Data: []byte("x")}, 10); !added {
		t.Errorf("another series: %v", err)
	}
}
