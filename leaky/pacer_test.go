package leaky

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

const (
	ms  Instant = 1_000
	sec Instant = 1_000_000
)

func mustRate(t testing.TB, s string) Rate {
	t.Helper()
	r, err := ParseRate(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A take asks at an instant for a departure and says what must come of it.
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
		{"the horizon bounds what is granted ahead", "10/s", 1, 50 * time.Millisecond, []take{
			{t0, 1, t0}, {t0, 1, refused}, {t0 + 50*ms - 1, 1, refused}, {t0 + 50*ms, 1, t0 + 100*ms}, {t0 + 100*ms, 1, refused},
		}},
		{"no horizon means exactly when due", "10/s", 1, 0, []take{
			{t0, 1, t0}, {t0 + 100*ms - 1, 1, refused}, {t0 + 100*ms, 1, t0 + 100*ms},
		}},
		{"idleness earns nothing at burst 1", "10/s", 1, 0, []take{
			{t0, 1, t0}, {t0 + 3600*sec, 1, t0 + 3600*sec}, {t0 + 3600*sec, 1, refused}, {t0 + 3600*sec + 100*ms, 1, t0 + 3600*sec + 100*ms},
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
		{"cost is paid behind the departure", "10/s", 1, time.Second, []take{
			{t0, 3, t0}, {t0, 1, t0 + 300*ms}, {t0, 5, t0 + 400*ms}, {t0, 1, t0 + 900*ms},
		}},
		{"a costly job may exceed the burst and is paid back", "10/s", 2, 0, []take{
			{t0, 5, t0}, {t0 + 400*ms - 1, 1, refused}, {t0 + 400*ms, 1, t0 + 400*ms}, {t0 + 400*ms, 1, refused}, {t0 + 500*ms, 1, t0 + 500*ms},
		}},
		{"a clock that steps back a little waits for it", "10/s", 1, 50 * time.Millisecond, []take{
			{t0, 1, t0}, {t0 - 20*ms, 1, refused}, {t0 + 50*ms, 1, t0 + 100*ms},
		}},
		{"a clock that steps back an hour costs one interval and the horizon", "10/s", 1, 50 * time.Millisecond, []take{
			{t0, 1, t0}, {t0 - 3600*sec, 1, refused}, {t0 - 3600*sec + 100*ms - 1, 1, refused}, {t0 - 3600*sec + 100*ms, 1, t0 - 3600*sec + 150*ms},
		}},
		{"a clock that steps ahead an hour gains nothing", "10/s", 1, 50 * time.Millisecond, []take{
			{t0, 1, t0}, {t0 + 3600*sec, 1, t0 + 3600*sec}, {t0 + 3600*sec, 1, refused}, {t0 + 3600*sec + 50*ms, 1, t0 + 3600*sec + 100*ms},
		}},
		{"unlimited delays nobody", "unlimited", 1, 50 * time.Millisecond, []take{
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
	const t0 = 1_790_000_000 * sec // some day's Unix time
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
			// i*d/n microseconds behind t0, rounded up, without ever overflowing
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

func TestChange(t *testing.T) {
	const t0 = 1_000 * sec
	const wait = 50 * time.Millisecond
	rule := func(rate string, burst int64) Pacer {
		return Pacer{Rate: mustRate(t, rate), Burst: burst, Horizon: wait}
	}
	for _, tt := range []struct {
		name     string
		from, to Pacer
		departed int     // at t0, one after another
		at       Instant // of the change
		next     Instant
	}{
		{"raised: the wait is as if it had always been so", rule("1/s", 1), rule("5/4s", 1), 1, t0 + 500*ms, t0 + 800*ms},
		{"raised: over, if it would have been", rule("1/s", 1), rule("10/s", 1), 1, t0 + 500*ms, t0 + 500*ms},
		{"raised in the instant of a departure", rule("1/s", 1), rule("10/s", 1), 1, t0, t0 + 100*ms},
		{"from one a month", rule("1/744h", 1), rule("10/s", 1), 1, t0, t0 + 100*ms},
		{"lowered: the wait grows in proportion", rule("10/s", 1), rule("1/s", 1), 1, t0 + 50*ms, t0 + 550*ms},
		{"lowered when the wait was over", rule("10/s", 1), rule("1/s", 1), 1, t0 + 100*ms, t0 + 100*ms},
		{"nothing ever left", rule("10/s", 1), rule("1/s", 1), 0, t0, t0},
		{"a burst raised gives nothing away", rule("10/s", 1), rule("10/s", 5), 1, t0, t0 + 100*ms},
		{"a burst raised after a rest", rule("10/s", 1), rule("10/s", 5), 1, t0 + 10*sec, t0 + 10*sec},
		{"a burst lowered", rule("10/s", 5), rule("10/s", 1), 5, t0, t0 + 100*ms},
		{"rate and burst raised", rule("1/s", 1), rule("10/s", 5), 1, t0, t0 + 100*ms},
		{"to unlimited", rule("1/s", 1), rule("unlimited", 1), 1, t0, t0},
		{"from unlimited", rule("unlimited", 1), rule("1/s", 1), 4, t0, t0 + 1*sec},
		{"from unlimited with a burst", rule("unlimited", 3), rule("1/s", 3), 4, t0 + 2*sec, t0 + 2*sec},
		{"to itself", rule("3/s", 1), rule("3/s", 1), 1, t0 + 1, t0 + 333_334},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b Bucket
			for range tt.departed {
				if d, ok := tt.from.Take(&b, t0, 1); !ok || d != t0 {
					t.Fatal(d, ok)
				}
			}
			c := tt.from.Change(b, tt.to, tt.at)
			if got := tt.to.Next(c, tt.at); got != tt.next {
				t.Errorf("next departure at t0+%d, want t0+%d (%+v)", got-t0, tt.next-t0, c)
			}
		})
	}
}

// A raised burst is earned by idleness under the new rule like any other.
func TestChangeOfBurstIsNoGiftEvenRepeated(t *testing.T) {
	const t0 = 1_000 * sec
	one := Pacer{Rate: mustRate(t, "10/s"), Burst: 1, Horizon: 0}
	five := Pacer{Rate: mustRate(t, "10/s"), Burst: 5, Horizon: 0}
	var b Bucket
	left := 0
	for i := range Instant(1000) { // a second, the burst raised and lowered a thousand times
		now := t0 + i*ms
		for {
			if _, ok := one.Take(&b, now, 1); !ok {
				break
			}
			left++
		}
		b = one.Change(b, five, now)
		for {
			if _, ok := five.Take(&b, now, 1); !ok {
				break
			}
			left++
		}
		b = five.Change(b, one, now)
	}
	if left > 10+4 {
		t.Errorf("%d left within a second at 10/s with a burst of 5", left)
	}
}

func TestHold(t *testing.T) {
	const t0 = 1_000 * sec
	p := Pacer{Rate: mustRate(t, "3/s"), Burst: 4, Horizon: 50 * time.Millisecond}
	b := p.Hold(Bucket{}, t0, 7)
	// behind now + H come the cost of the last job and nothing of the burst
	want := t0 + 50*ms + 7*sec/3 + 1
	if got := p.Next(b, t0); got != want {
		t.Errorf("next at t0+%d, want t0+%d", got-t0, want-t0)
	}
	if again := p.Hold(b, t0, 7); p.Next(again, t0) != want {
		t.Error("a second hold moved it")
	}
	// What is kept and lies further ahead stays.
	full := Bucket{}
	for range 4 {
		p.Take(&full, t0, MaxCost)
	}
	if got, kept := p.Hold(full, t0, 1), full; got.TAT < kept.TAT {
		t.Errorf("hold pulled the TAT back from %d to %d", kept.TAT, got.TAT)
	}
	u := Pacer{Burst: 1, Horizon: 50 * time.Millisecond}
	if got := u.Next(u.Hold(Bucket{}, t0, 7), t0); got > t0+50*ms {
		t.Errorf("unlimited held until t0+%d", got-t0)
	}
}

// Whatever stands in the store, the next departure is bounded by what one
// honest departure at the horizon would cost.
func TestPlantedValues(t *testing.T) {
	const t0 = 1_000 * sec
	p := Pacer{Rate: mustRate(t, "3/s"), Burst: 4, Horizon: 50 * time.Millisecond}
	worst := p.Hold(Bucket{}, t0, MaxCost)
	latest := p.Next(worst, t0)
	extremes := []int64{0, 1, -1, 1 << 40, -(1 << 40), 1 << 52, -(1 << 52), int64(t0), int64(t0) + 1<<30}
	for _, tat := range extremes {
		for _, last := range extremes {
			for _, rem := range []int64{0, 1, 2, 3, -1, 1 << 52, -(1 << 52)} {
				for _, cost := range []int64{0, 1, MaxCost, MaxCost + 1, -1, 1 << 52} {
					b := Bucket{TAT: Instant(tat), Rem: rem, Last: Instant(last), LastCost: cost}
					planted := b
					if next := p.Next(b, t0); next < t0 || next > latest {
						t.Fatalf("%+v departs at t0+%d, at most t0+%d", b, next-t0, latest-t0)
					}
					// Whoever asks again when told to has it within two rounds.
					now, ok := t0, false
					for range 3 {
						if _, ok = p.Take(&b, now, 1); ok {
							break
						}
						now = p.Next(b, now) - 50*ms
					}
					if !ok || b.Last > latest {
						t.Fatalf("%+v is stopped: %+v at t0+%d", planted, b, now-t0)
					}
				}
			}
		}
	}
}

func TestETA(t *testing.T) {
	const t0 = 1_000 * sec
	p := Pacer{Rate: mustRate(t, "14/s"), Burst: 1, Horizon: 50 * time.Millisecond}
	u := Pacer{Burst: 1}
	var b Bucket
	if got := p.ETA(b, t0, 0); got != t0 {
		t.Errorf("an idle bucket: t0+%d", got-t0)
	}
	if got := p.ETA(b, t0, 14); got != t0+sec {
		t.Errorf("14 ahead: t0+%d", got-t0)
	}
	p.Take(&b, t0, 1)
	if got := p.ETA(b, t0, 0); got != t0+71_429 {
		t.Errorf("after one: t0+%d", got-t0)
	}
	if got := p.ETA(b, t0+10*sec, 0); got != t0+10*sec {
		t.Errorf("after a rest: t0+%d", got-t0)
	}
	if got := u.ETA(b, t0, 1<<40); got != t0 {
		t.Errorf("unlimited: t0+%d", got-t0)
	}
	slow := Pacer{Rate: mustRate(t, "1/744h"), Burst: 1}
	if got := slow.ETA(b, t0, math.MaxInt64); got <= t0 {
		t.Errorf("a backlog longer than time itself overflowed to %d", got)
	}
}

// ETA is what Take then does, whatever the rate, burst and costs ahead.
func TestETAIsKept(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		p := Pacer{Rate: randomRate(rnd), Burst: 1 + rnd.Int64N(4), Horizon: 50 * time.Millisecond}
		now := 1_000*sec + Instant(rnd.Int64N(1e6))
		var b Bucket
		for range rnd.IntN(5) {
			p.Take(&b, now, 1+rnd.Int64N(3))
		}
		costs, ahead := make([]int64, rnd.IntN(30)), int64(0)
		for i := range costs {
			costs[i] = 1 + rnd.Int64N(5)
			ahead += costs[i]
		}
		eta := p.ETA(b, now, ahead)
		for _, c := range append(costs, 1) {
			d, ok := p.Take(&b, now, c)
			if !ok {
				now = p.Next(b, now) - 50*ms
				d, _ = p.Take(&b, now, c)
			}
			now = max(now, d-50*ms)
		}
		// Granted as early as they can be, they leave as promised, but for
		// rounding: a microsecond.
		if diff := b.Last - eta; diff < -1 || diff > 1 {
			t.Fatalf("%s burst %d: promised %d, left %+d later", p.Rate, p.Burst, eta, diff)
		}
	}
}

func TestPacerValidate(t *testing.T) {
	for _, tt := range []struct {
		rate  string
		burst int64
		ok    bool
	}{
		{"1/s", 1, true},
		{"1000/s", MaxBurst, true},
		{"unlimited", MaxBurst, true},
		{"1/d", 365, true},
		{"1/s", 0, false},
		{"1/s", -1, false},
		{"1000000/s", MaxBurst + 1, false},
		{"1/d", 366, false},
		{"1/744h", 12, false},
	} {
		if err := (Pacer{Rate: mustRate(t, tt.rate), Burst: tt.burst}).Validate(); (err == nil) != tt.ok {
			t.Errorf("%s with burst %d: %v", tt.rate, tt.burst, err)
		}
	}
}

func TestInstant(t *testing.T) {
	at := Instant(1_790_000_000_123_456)
	if got := at.Add(1999 * time.Nanosecond); got != at+1 {
		t.Errorf("Add truncates: %d", got)
	}
	if got := (at + 5).Sub(at); got != 5*time.Microsecond {
		t.Error(got)
	}
	if got := at.Time(); got.UnixMicro() != int64(at) {
		t.Error(got)
	}
}
