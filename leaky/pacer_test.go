package leaky

import (
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
