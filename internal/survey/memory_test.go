package survey_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/survey"
)

// The histories of 1,000 queues, with constantly changing values, take at most 40 MB.
func TestMemory(t *testing.T) {
	const queues, most = 1000, 40 << 20
	r := newRig(t, survey.Options{})
	for n := range queues {
		r.add(fmt.Sprintf("queue-%04d", n))
	}
	used := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := used()
	for n := range int64(200) {
		for _, i := range r.infos {
			i.Appended += n
			i.Delivered += n / 2
			i.Refused += n / 3
			i.Released += n / 4
			i.Waiting, i.Deferred, i.Outflow = n, n, float64(n)
			i.OldestWaiting = r.now.Add(-time.Duration(n) * time.Second)
		}
		r.after(5 * time.Minute)
	}
	took := int64(used()) - int64(before)
	t.Logf("%d queues take %.1f MB", queues, float64(took)/(1<<20))
	if took > most {
		t.Errorf("%d queues take %d bytes, at most %d", queues, took, most)
	}
	runtime.KeepAlive(r)
}
