package rules

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/unit"
)

// By default no rule holds more than 256 MiB of keys; docs/limiters.md has some of these numbers.
func TestKeyLimit(t *testing.T) {
	year := unit.Duration(365 * 24 * time.Hour)
	for _, tt := range []struct {
		rule Rule
		want int64
	}{
		{Rule{Algorithm: leaky.AlgorithmMeter, Bound: Bound{Burst: 1_000_000}}, 1_000_000},
		{Rule{Algorithm: leaky.AlgorithmGap, Bound: Bound{Period: year}}, 1_000_000},
		{Rule{Algorithm: leaky.AlgorithmFixedWindow, Bound: Bound{Limit: 1_000_000_000, Period: year}}, 1_000_000},
		{Rule{Algorithm: leaky.AlgorithmSlidingLog, Bound: Bound{Limit: 1, Period: year}}, 1_000_000},
		{Rule{Algorithm: leaky.AlgorithmSlidingLog, Bound: Bound{Limit: 1000, Period: year}}, 8_330},
		{
			Rule{
				Algorithm: leaky.AlgorithmSlidingLog,
				Bound:     Bound{Limit: 1_000_000_000, Period: year, Resolution: year / 1000},
			},
			8_322,
		},
		{Rule{Algorithm: leaky.AlgorithmConcurrency, Bound: Bound{Limit: 1, TTL: year}}, 1_000_000},
		{Rule{Algorithm: leaky.AlgorithmConcurrency, Bound: Bound{Limit: 100, TTL: year}}, 13_934},
		{Rule{Algorithm: leaky.AlgorithmConcurrency, Bound: Bound{Limit: 10_000, TTL: year}}, 139},
		{Rule{Algorithm: leaky.AlgorithmConcurrency, Bound: Bound{Limit: 10_000, TTL: year}, MaxKeys: 7}, 7},
	} {
		if got := tt.rule.KeyLimit(); got != tt.want {
			t.Errorf("%s %+v: %d keys, want %d", tt.rule.Algorithm, tt.rule.Bound, got, tt.want)
		}
	}
}

func TestParseMaxKeys(t *testing.T) {
	parse := func(keys string) (Rule, error) {
		return Parse([]byte(`{"name":"r","algorithm":"gap","period":"1s"` + keys + `}`))
	}
	for keys, want := range map[string]int64{"": 0, `,"max_keys":1`: 1, `,"max_keys":100000000`: MaxKeys} {
		if r, err := parse(keys); err != nil || r.MaxKeys != want {
			t.Errorf("%s: %d, %v", keys, r.MaxKeys, err)
		}
	}
	for _, keys := range []string{"0", "-1", "100000001", "1.5", `"7"`, "null"} {
		_, err := parse(`,"max_keys":` + keys)
		var fe *invalid.Error
		if !errors.As(err, &fe) || fe.Field != "max_keys" {
			t.Errorf("%s: %v", keys, err)
		}
	}
	if _, err := parse(`,"max_keys":0`); err == nil || !strings.Contains(err.Error(), "from 1 to 100000000") {
		t.Errorf("%v", err)
	}
}
