package leaky

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func TestParseRate(t *testing.T) {
	for _, tt := range []struct {
		in   string
		n, d int64 // n departures in d microseconds
		out  string
	}{
		{"1/s", 1, 1_000_000, "1/s"},
		{"14/s", 7, 500_000, "14/s"},
		{"0014/s", 7, 500_000, "14/s"},
		{"1000000/s", 1, 1, "1000000/s"},
		{"60/m", 1, 1_000_000, "1/s"},
		{"2/m", 1, 30_000_000, "2/m"},
		{"1000/h", 1, 3_600_000, "1000/h"},
		{"5/d", 1, 17_280_000_000, "5/d"},
		{"1/d", 1, 86_400_000_000, "1/d"},
		{"0.5/s", 1, 2_000_000, "30/m"},
		{".5/s", 1, 2_000_000, "30/m"},
		{"5./s", 1, 200_000, "5/s"},
		{"2.50/s", 1, 400_000, "150/m"},
		{"1/250ms", 1, 250_000, "4/s"},
		{"3/250ms", 3, 250_000, "12/s"},
		{"1/1m30s", 1, 90_000_000, "40/h"},
		{"7/1.5s", 7, 1_500_000, "280/m"},
		{"1/1us", 1, 1, "1000000/s"},
		{"3/7us", 3, 7, "3/7µs"},
		{"1/744h", 1, 2_678_400_000_000, "1/744h0m0s"},
		{"unlimited", 0, 0, "unlimited"},
	} {
		r, err := ParseRate(tt.in)
		if err != nil {
			t.Errorf("%q: %v", tt.in, err)
			continue
		}
		if n, d := r.Fraction(); n != tt.n || d != tt.d || r.String() != tt.out {
			t.Errorf("%q: got %d/%d, %q, want %d/%d, %q", tt.in, n, d, r, tt.n, tt.d, tt.out)
		}
		if again, err := ParseRate(r.String()); err != nil || again != r {
			t.Errorf("%q came back as %v, %v", r, again, err)
		}
	}
}

func TestParseRateRefuses(t *testing.T) {
	for _, tt := range []struct{ in, reason string }{
		{"0/s", "above zero"},
		{"0.000/s", "above zero"},
		{"-1/s", "above zero"},
		{"-0.5/s", "above zero"},
		{"1e9/s", "want NUMBER"},
		{"1e3/s", "want NUMBER"},
		{"0x10/s", "want NUMBER"},
		{"1_000/s", "want NUMBER"},
		{"+1/s", "want NUMBER"},
		{"--1/s", "want NUMBER"},
		{"-/s", "want NUMBER"},
		{"1.2.3/s", "want NUMBER"},
		{"./s", "want NUMBER"},
		{" 1/s", "want NUMBER"},
		{"1 /s", "want NUMBER"},
		{"abc", "want NUMBER"},
		{"abc/s", "want NUMBER"},
		{"NaN/s", "want NUMBER"},
		{"Inf/s", "want NUMBER"},
		{"10/fortnight", "want NUMBER"},
		{"10/", "want NUMBER"},
		{"/s", "want NUMBER"},
		{"10", "want NUMBER"},
		{"", "want NUMBER"},
		{"1/2/s", "want NUMBER"},
		{"1/0s", "want NUMBER"},
		{"1/-1s", "want NUMBER"},
		{"1/1ns", "want NUMBER"},
		{"1/1500ns", "want NUMBER"},
		{"1/S", "want NUMBER"},
		{"Unlimited", "want NUMBER"},
		{"١/s", "want NUMBER"}, // a digit, but not one of ours
		{"1000001/s", "faster than the highest"},
		{"1000000000/s", "faster than the highest"},
		{"2/1us", "faster than the highest"},
		{"1/745h", "slower than the lowest"},
		{"0.0000001/s", "slower than the lowest"},
		{"0.12345678901234567/s", "too many digits"},
		{strings.Repeat("9", 40) + "/s", "faster than the highest"},
		{strings.Repeat("9", 100) + "/s", "102 characters long"},
		{strings.Repeat("9", 10_000_000) + "/s", "10000002 characters long"},
	} {
		r, err := ParseRate(tt.in)
		if !errors.Is(err, ErrRate) || !strings.Contains(err.Error(), tt.reason) || len(err.Error()) > 300 {
			t.Errorf("%.50q: got %v, %v, want an error with %q", tt.in, r, err, tt.reason)
		}
		if r != Unlimited {
			t.Errorf("%.50q: left the rate %v beside the error", tt.in, r)
		}
	}
}

func TestNewRate(t *testing.T) {
	for _, tt := range []struct {
		n      int64
		period time.Duration
		ok     bool
	}{
		{14, time.Second, true},
		{1, MaxInterval, true},
		{1, time.Microsecond, true},
		{0, time.Second, false},
		{-1, time.Second, false},
		{1, 0, false},
		{1, -time.Second, false},
		{1, time.Nanosecond, false},
		{1, time.Second + 1, false},
		{2, time.Microsecond, false},
		{1, MaxInterval + time.Microsecond, false},
		{1<<63 - 1, 1<<63 - 1, false},
	} {
		if r, err := NewRate(tt.n, tt.period); (err == nil) != tt.ok || (err != nil && !errors.Is(err, ErrRate)) {
			t.Errorf("NewRate(%d, %v) = %v, %v", tt.n, tt.period, r, err)
		}
	}
}

func TestPerSecondPanicsOnNonsense(t *testing.T) {
	for _, n := range []int64{0, -1, MaxPerSecond + 1} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("PerSecond(%d) returned", n)
				}
			}()
			PerSecond(n)
		}()
	}
}

func TestRateInWords(t *testing.T) {
	for _, tt := range []struct {
		in        string
		interval  time.Duration
		perSecond float64
	}{
		{"unlimited", 0, 0},
		{"14/s", 71_428_571 * time.Nanosecond, 14},
		{"3/s", 333_333_333 * time.Nanosecond, 3},
		{"1000000/s", time.Microsecond, 1e6},
		{"2/d", 12 * time.Hour, 2 / 86_400e6 * 1e6},
	} {
		r, err := ParseRate(tt.in)
		if err != nil {
			t.Fatal(err)
		}
		if r.Interval() != tt.interval || r.PerSecond() != tt.perSecond || r.Unlimited() != (tt.interval == 0) {
			t.Errorf("%s: interval %v, %v a second", r, r.Interval(), r.PerSecond())
		}
	}
}

func TestRateAsText(t *testing.T) {
	var r Rate
	if err := r.UnmarshalText([]byte("2/m")); err != nil || r.String() != "2/m" {
		t.Errorf("got %v, %v", r, err)
	}
	if b, err := r.MarshalText(); err != nil || string(b) != "2/m" {
		t.Errorf("got %s, %v", b, err)
	}
	if err := r.UnmarshalText([]byte("2/y")); !errors.Is(err, ErrRate) {
		t.Errorf("got %v", err)
	}
}

// Every valid rate can be read back from its String.
func TestRateStringRoundTrip(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	made := 0
	for range 200_000 {
		n := rnd.Int64N(1<<rnd.IntN(40)) + 1
		d := rnd.Int64N(1<<rnd.IntN(53)) + 1
		r, err := NewRate(n, time.Duration(d)*time.Microsecond)
		if err != nil {
			continue
		}
		made++
		if back, err := ParseRate(r.String()); err != nil || back != r {
			t.Fatalf("%d/%dµs is %q, which reads as %v, %v", n, d, r, back, err)
		}
	}
	if made < 1000 {
		t.Fatalf("only %d rates were made", made)
	}
}

func FuzzParseRate(f *testing.F) {
	for _, s := range []string{
		"14/s", "0.5/s", "1/250ms", "unlimited", "-1/s", "1e9/s", "3/7µs", "99999999999999999999/h",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRate(s)
		if err != nil {
			if !errors.Is(err, ErrRate) || r != Unlimited {
				t.Fatalf("%q: %v, %v", s, r, err)
			}
			return
		}
		if back, err := ParseRate(r.String()); err != nil || back != r {
			t.Fatalf("%q is %q, which reads as %v, %v", s, r, back, err)
		}
		if r.Unlimited() {
			return
		}
		if T := r.Interval(); T < time.Microsecond || T > MaxInterval {
			t.Fatalf("%q has the interval %v", s, T)
		}
		p := Pacer{Rate: r, Burst: 1, Horizon: MaxInterval}
		var b Bucket
		if _, ok := p.Take(&b, 0, MaxCost); !ok || b.TAT < 0 || b.Rem < 0 {
			t.Fatalf("%q: a departure leaves %+v", s, b)
		}
	})
}
