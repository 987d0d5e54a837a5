package leaky

import (
	"math"
	"testing"
	"time"
)

// A take asks for a departure at an instant, and has the expected answer.
type take struct {
	now  Instant
	cost int64
	want Instant // the departure, or refused
}

const refused Instant = math.MinInt64

func TestTake(t *testing.T) {
	const t0 = 1_000 * sec
	for _, tt := range []struct {
		name    string
		rate    string
		burst   int64
		horizon time.Duration
		takes   []take
	}{
		{"the first leaves at once, the next one interval later", "10/s", 1, 200 * time.Millisecond, []take{
			{t0, 1, t0}, {t0, 1, t0 + 100*ms}, {t0, 1, t0 + 200*ms}, {t0, 1, refused}, {t0, 1, refused},
		}},
		{"the horizon limits how far ahead departures are granted", "10/s", 1, 50 * time.Millisecond, []take{
			{t0, 1, t0},
			{t0, 1, refused},
			{t0 + 50*ms - 1, 1, refused},
			{t0 + 50*ms, 1, t0 + 100*ms},
			{t0 + 100*ms, 1, refused},
		}},
		{"no horizon means exactly when due", "10/s", 1, 0, []take{
			{t0, 1, t0}, {t0 + 100*ms - 1, 1, refused}, {t0 + 100*ms, 1, t0 + 100*ms},
		}},
		{"idleness earns nothing at burst 1", "10/s", 1, 0, []take{
			{t0, 1, t0},
			{t0 + 3600*sec, 1, t0 + 3600*sec},
			{t0 + 3600*sec, 1, refused},
			{t0 + 3600*sec + 100*ms, 1, t0 + 3600*sec + 100*ms},
		}},
		{"a late departure is not caught up", "10/s", 1, 0, []take{
			{t0, 1, t0}, {t0 + 170*ms, 1, t0 + 170*ms}, {t0 + 200*ms, 1, refused}, {t0 + 270*ms, 1, t0 + 270*ms},
		}},
		{"a burst leaves back to back, then the pace holds", "10/s", 3, 0, []take{
			{t0, 1, t0},
			{t0, 1, t0},
			{t0, 1, t0},
			{t0, 1, refused},
			{t0 + 99*ms, 1, refused},
			{t0 + 100*ms, 1, t0 + 100*ms},
			{t0 + 100*ms, 1, refused},
			{t0 + 200*ms, 1, t0 + 200*ms},
		}},
		{"idleness earns a burst and no more", "10/s", 3, 0, []take{
			{t0, 1, t0},
			{t0, 1, t0},
			{t0, 1, t0},
			{t0 + 3600*sec, 1, t0 + 3600*sec},
			{t0 + 3600*sec, 1, t0 + 3600*sec},
			{t0 + 3600*sec, 1, t0 + 3600*sec},
			{t0 + 3600*sec, 1, refused},
		}},
		{"half a rest earns half a burst", "10/s", 3, 0, []take{
			{t0, 1, t0},
			{t0, 1, t0},
			{t0, 1, t0},
			{t0 + 250*ms, 1, t0 + 250*ms},
			{t0 + 250*ms, 1, t0 + 250*ms},
			{t0 + 250*ms, 1, refused},
			{t0 + 300*ms, 1, t0 + 300*ms},
		}},
		{"cost is paid after the departure", "10/s", 1, time.Second, []take{
			{t0, 3, t0}, {t0, 1, t0 + 300*ms}, {t0, 5, t0 + 400*ms}, {t0, 1, t0 + 900*ms},
		}},
		{"a costly job may exceed the burst and is paid back", "10/s", 2, 0, []take{
			{t0, 5, t0},
			{t0 + 400*ms - 1, 1, refused},
			{t0 + 400*ms, 1, t0 + 400*ms},
			{t0 + 400*ms, 1, refused},
			{t0 + 500*ms, 1, t0 + 500*ms},
		}},
		{"a clock that steps back a little waits for it", "10/s", 1, 50 * time.Millisecond, []take{
			{t0, 1, t0}, {t0 - 20*ms, 1, refused}, {t0 + 50*ms, 1, t0 + 100*ms},
		}},
		{"a clock that steps back an hour costs one interval and the horizon", "10/s", 1, 50 * time.Millisecond, []take{
			{t0, 1, t0},
			{t0 - 3600*sec, 1, refused},
			{t0 - 3600*sec + 100*ms - 1, 1, refused},
			{t0 - 3600*sec + 100*ms, 1, t0 - 3600*sec + 150*ms},
		}},
		{"a clock that steps ahead an hour gains nothing", "10/s", 1, 50 * time.Millisecond, []take{
			{t0, 1, t0},
			{t0 + 3600*sec, 1, t0 + 3600*sec},
			{t0 + 3600*sec, 1, refused},
			{t0 + 3600*sec + 50*ms, 1, t0 + 3600*sec + 100*ms},
		}},
		{"unlimited delays no job", "unlimited", 1, 50 * time.Millisecond, []take{
			{t0, 1, t0}, {t0, 1000, t0}, {t0, 1, t0}, {t0 + 1, 1, t0 + 1},
		}},
		{"a fraction of a microsecond is rounded up, never down", "3/s", 1, time.Second, []take{
			{t0, 1, t0}, {t0, 1, t0 + 333_334}, {t0, 1, t0 + 666_667}, {t0, 1, t0 + 1_000_000},
		}},
		{"a burst's fraction too", "3/s", 2, time.Second, []take{
			{t0, 1, t0}, {t0, 1, t0}, {t0, 1, t0 + 333_334}, {t0, 1, t0 + 666_667}, {t0, 1, t0 + 1_000_000},
		}},
		{"the slowest rate", "1/744h", 1, 0, []take{
			{t0, 1, t0}, {t0 + 744*3600*sec - 1, 1, refused}, {t0 + 744*3600*sec, 1, t0 + 744*3600*sec},
		}},
		{"the fastest", "1000000/s", 1, 3 * time.Microsecond, []take{
			{t0, 1, t0}, {t0, 1, t0 + 1}, {t0, 1, t0 + 2}, {t0, 1, t0 + 3}, {t0, 1, refused}, {t0 + 1, 1, t0 + 4},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := Pacer{Rate: mustRate(t, tt.rate), Burst: tt.burst, Horizon: tt.horizon}
			if err := p.Validate(); err != nil {
				t.Fatal(err)
			}
			var b Bucket
			for i, k := range tt.takes {
				before, next := b, p.Next(b, k.now)
				honest := b.Last <= k.now.Add(tt.horizon)
				d, ok := p.Take(&b, k.now, k.cost)
				switch {
				case k.want == refused && (ok || honest && b != before):
					t.Fatalf("take %d at %d: granted %d, left %+v", i, k.now-t0, d-t0, b)
				case k.want != refused && (!ok || d != k.want):
					t.Fatalf("take %d at %d: got %d, %v, want %d", i, k.now-t0, d-t0, ok, k.want-t0)
				case ok && d != next:
					t.Fatalf("take %d: departs at %d, Next said %d", i, d-t0, next-t0)
				case !ok && next <= k.now.Add(tt.horizon):
					t.Fatalf("take %d: refused, but Next said %d", i, next-t0)
				}
			}
		})
	}
}

// However long it runs, 14/s leaves 14 every second: the remainder is carried.
func TestNoDriftOverAMillionDepartures(t *testing.T) {
	const t0 = 1_790_000_000 * sec // a plausible Unix time
	for _, rate := range []string{"14/s", "3/s", "7/m", "999983/s", "0.3/s"} {
		p := Pacer{Rate: mustRate(t, rate), Burst: 1, Horizon: 50 * time.Millisecond}
		n, d := p.Rate.Fraction()
		var b Bucket
		now := t0
		for i := range int64(1_000_000) {
			at, ok := p.Take(&b, now, 1)
			if !ok {
				now = p.Next(b, now) - 50*ms
				at, ok = p.Take(&b, now, 1)
			}
			// i*d/n microseconds after t0, rounded up, without overflow.
			want := t0 + Instant(i*(d/n)+(i*(d%n)+n-1)/n)
			if !ok || at != want {
				t.Fatalf("%s: departure %d at t0+%d, want t0+%d", rate, i, at-t0, want-t0)
			}
		}
	}
}

func TestGiveBack(t *testing.T) {
	const t0 = 1_000 * sec
	p := Pacer{Rate: mustRate(t, "3/s"), Burst: 1, Horizon: 50 * time.Millisecond}
	var b Bucket
	p.Take(&b, t0, 1)
	before := b
	d, ok := p.Take(&b, t0+300*ms, 2)
	if !ok || d != t0+333_334 {
		t.Fatal(d, ok)
	}
	p.GiveBack(&b)
	if b.TAT != before.TAT || b.Rem != before.Rem {
		t.Fatalf("got %+v, want the TAT of %+v", b, before)
	}
	once := b
	p.GiveBack(&b)
	if b != once {
		t.Fatal("a second GiveBack of the same departure changed the bucket")
	}
	if again, ok := p.Take(&b, t0+310*ms, 1); !ok || again != d {
		t.Fatalf("the slot was not used again: %d, %v", again, ok)
	}
	// A slot given back after its time is lost, not saved up.
	p.Take(&b, t0+700*ms, 1)
	p.GiveBack(&b)
	var got []Instant
	for {
		d, ok := p.Take(&b, t0+5*sec, 1)
		if !ok {
			break
		}
		got = append(got, d)
	}
	if len(got) != 1 || got[0] != t0+5*sec {
		t.Fatalf("after a rest: %v", got)
	}
	var empty Bucket
	p.GiveBack(&empty)
	if empty != (Bucket{}) {
		t.Fatal("giving back nothing changed the bucket")
	}
}

// A delayed departure loses the time until then; one without delay loses nothing.
func TestTakeAt(t *testing.T) {
	const t0 = 1_000 * sec
	p := Pacer{Rate: mustRate(t, "3/s"), Burst: 1, Horizon: time.Second}
	var b Bucket
	for i, d := range []Instant{
		t0, t0 + 333_334, t0 + 666_667, t0 + 1_000_000, t0 + 1_500_000, t0 + 1_833_334, t0 + 2_166_667,
	} {
		now := max(t0, d-900*ms)
		if next := p.Next(b, now); next > d || i != 4 && next != d {
			t.Fatalf("departure %d: next is %d, want %d", i, next-t0, d-t0)
		}
		p.TakeAt(&b, now, d, 1)
		if b.Last != d || b.LastCost != 1 {
			t.Fatalf("departure %d left %+v", i, b)
		}
	}
}

// Free looks back as far as the burst was saved up, and ahead like Next.
func TestFree(t *testing.T) {
	const t0 = 1_000 * sec
	p := Pacer{Rate: mustRate(t, "10/s"), Burst: 3, Horizon: time.Second}
	b := Bucket{TAT: t0, Last: t0 - 100*ms, LastCost: 1}
	if at := p.Free(b, t0); at != t0-200*ms || p.Next(b, t0) != t0 {
		t.Errorf("free since %d", at-t0)
	}
	b = Bucket{TAT: t0 + 300*ms, Last: t0, LastCost: 1}
	if at := p.Free(b, t0); at != t0+100*ms || p.Next(b, t0) != at {
		t.Errorf("free at %d", at-t0)
	}
}
