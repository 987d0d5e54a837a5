package drain

import (
	"slices"
	"testing"
	"time"
)

// The clock rings each bell, never early, in any order of requests, and ends. The benchmark measures its precision,
// which depends on the machine.
func TestClock(t *testing.T) {
	c := newClock()
	if c == nil {
		a, err := newAlarm()
		t.Logf("no alarm of its own: %v, %v", a, err)
		return
	}
	go c.run()
	begin := time.Now()
	rung := make(chan time.Duration)
	waits := []time.Duration{30 * ms, 10 * ms, 20 * ms, 0, 25 * ms, 10 * ms, -5 * ms, 1 * ms}
	for _, w := range waits {
		ring := c.after(w)
		go func() {
			<-ring
			if early := w - time.Since(begin); early > 0 {
				t.Errorf("%v rang %v early", w, early)
			}
			rung <- w
		}()
	}
	var got []time.Duration
	for range waits {
		select {
		case w := <-rung:
			got = append(got, w)
		case <-time.After(20 * time.Second):
			t.Fatalf("only %v rang", got)
		}
	}
	slices.Sort(got)
	slices.Sort(waits)
	if !slices.Equal(got, waits) {
		t.Errorf("rang %v", got)
	}
	c.after(time.Hour)
	c.close()
	c.after(time.Hour) // after the end: harmless
}

// BenchmarkLateness compares the lateness of the clock and of time.Sleep.
func BenchmarkLateness(b *testing.B) {
	report := func(b *testing.B, wait func(time.Duration)) {
		late := make([]time.Duration, 0, b.N)
		for i := range b.N {
			d := time.Duration(1+i%37) * 271 * time.Microsecond
			begin := time.Now()
			wait(d)
			late = append(late, time.Since(begin)-d)
		}
		slices.Sort(late)
		b.ReportMetric(float64(late[len(late)/2].Microseconds()), "p50-us")
		b.ReportMetric(float64(late[len(late)*99/100].Microseconds()), "p99-us")
	}
	b.Run("clock", func(b *testing.B) {
		c := newClock()
		if c != nil {
			go c.run()
			defer c.close()
		}
		report(b, func(d time.Duration) {
			timer := time.NewTimer(d)
			defer timer.Stop()
			select {
			case <-c.after(d):
			case <-timer.C:
			}
		})
	})
	b.Run("sleep", func(b *testing.B) { report(b, time.Sleep) })
}
