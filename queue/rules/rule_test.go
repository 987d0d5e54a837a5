package rules

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/unit"
)

const minute = unit.Duration(time.Minute)

func TestParseRuleReadsEveryField(t *testing.T) {
	for text, want := range map[string]Rule{
		`{"name":"otp.to","algorithm":"meter","rate":"2/m","burst":3,"key":"{payload/to}","action":"defer","away":"share",` +
			`"overrides":{"a.b":{"rate":"5/s"},"c":{"rate":"1/s","burst":9}}}`: {
			Name: "otp.to", Algorithm: leaky.AlgorithmMeter, Bound: Bound{Rate: rateOf("2/m"), Burst: 3},
			Key: "{payload/to}", Action: Defer, Away: AwayShare,
			Overrides: map[string]Bound{"a.b": {Rate: rateOf("5/s"), Burst: 1}, "c": {Rate: rateOf("1/s"), Burst: 9}},
		},
		`{"algorithm":"token_bucket","rate":"2/m"}`: {
			Algorithm: leaky.AlgorithmTokenBucket, Bound: Bound{Rate: rateOf("2/m"), Burst: 1},
		},
		`{"algorithm":"fixed_window","limit":5,"period":"1m","overrides":{}}`: {
			Algorithm: leaky.AlgorithmFixedWindow, Bound: Bound{Limit: 5, Period: minute},
		},
		`{"algorithm":"sliding_log","limit":5,"period":"1m","resolution":"0s","action":"shadow","away":"open"}`: {
			Algorithm: leaky.AlgorithmSlidingLog, Bound: Bound{Limit: 5, Period: minute}, Action: Shadow,
			Away: AwayOpen,
		},
		`{"algorithm":"sliding_log","limit":1000000000,"period":"1h","resolution":"3600ms"}`: {
			Algorithm: leaky.AlgorithmSlidingLog,
			Bound:     Bound{Limit: leaky.MaxLimit, Period: 60 * minute, Resolution: unit.Duration(3600 * time.Millisecond)},
		},
		`{"algorithm":"sliding_counter","limit":5,"period":"1m"}`: {
			Algorithm: leaky.AlgorithmSlidingCounter, Bound: Bound{Limit: 5, Period: minute},
		},
		`{"algorithm":"gap","period":"744h","key":""}`: {
			Algorithm: leaky.AlgorithmGap, Bound: Bound{Period: unit.Duration(leaky.MaxInterval)},
		},
		`{"algorithm":"concurrency","limit":10000,"ttl":"1m"}`: {
			Algorithm: leaky.AlgorithmConcurrency, Bound: Bound{Limit: leaky.MaxEntries, TTL: minute},
		},
	} {
		want.Normalize()
		got, err := Parse([]byte(text))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v\nwant %+v", text, got, err, want)
		}
		if got.Name == "" {
			got.Name = "r"
		}
		written, err := Encode(got)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := Parse(written); err != nil || !reflect.DeepEqual(back, got) {
			t.Errorf("%s came back as %+v, %v", written, back, err)
		}
		if back, err := Decode(written); err != nil || !reflect.DeepEqual(back, got) {
			t.Errorf("%s was decoded as %+v, %v", written, back, err)
		}
	}
}

func rateOf(text string) leaky.Rate {
	r, err := leaky.ParseRate(text)
	if err != nil {
		panic(err)
	}
	return r
}

func TestParseRuleRefuses(t *testing.T) {
	long := strings.Repeat("k", 300)
	for _, tt := range []struct{ in, field, reason string }{
		{``, "rule", "not valid JSON"},
		{`[]`, "rule", "must be a JSON object"},
		{`null`, "rule", "must be a JSON object"},
		{`{} {}`, "rule", "not valid JSON"},
		{`{"algorithm":"gap","period":"1s"`, "rule", "not valid JSON"},
		{
			`{}`, "algorithm",
			"must be one of [meter token_bucket budget fixed_window sliding_log sliding_counter gap concurrency]",
		},
		{`{"algorithm":""}`, "algorithm", "must be one of"},
		{`{"algorithm":"leaky"}`, "algorithm", "must be one of"},
		{`{"algorithm":"leaky","rate":"1/s"}`, "algorithm", "must be one of"},
		{`{"algorithm":7}`, "algorithm", "must be a string"},
		{`{"algorithm":null}`, "algorithm", "is null"},
		{`{"algorithm":"gap","algorithm":"gap"}`, "algorithm", "twice"},
		{`{"Algorithm":"gap"}`, "Algorithm", "is not a field of a rule"},
		{`{"algorithm":"gap","period":"1s","Bound":{}}`, "Bound", "is not a field"},
		{`{"algorithm":"gap","period":"1s","name":""}`, "name", "a rule name has"},
		{`{"algorithm":"gap","period":"1s","name":"a b"}`, "name", "a rule name has"},
		{`{"algorithm":"gap","period":"1s","name":"a.b.c"}`, "name", "a rule name has"},

		{`{"algorithm":"meter"}`, "rate", `is missing or unlimited, but meter needs it; use for example "5/s"`},
		{`{"algorithm":"meter","rate":"unlimited"}`, "rate", "is missing or unlimited"},
		{`{"algorithm":"meter","rate":"0/s"}`, "rate", "above zero"},
		{`{"algorithm":"meter","rate":"-1/s"}`, "rate", "above zero"},
		{`{"algorithm":"meter","rate":"NaN/s"}`, "rate", "invalid rate"},
		{`{"algorithm":"meter","rate":"1e18/s"}`, "rate", "invalid rate"},
		{`{"algorithm":"meter","rate":"1000000000000000000/s"}`, "rate", "highest limited rate, 1000000/s"},
		{
			`{"algorithm":"meter","rate":"0/s"}`, "rate",
			"must be above zero (to stop a queue, pause it)",
		},
		{`{"algorithm":"meter","rate":"5"}`, "rate", `or "unlimited" where allowed`},
		{`{"algorithm":"meter","rate":"1/100y"}`, "rate", "want NUMBER/s"},
		{`{"algorithm":"meter","rate":"1/876000h"}`, "rate", "lowest rate, 1/744h"},
		{`{"algorithm":"meter","rate":5}`, "rate", `a string such as "14/s"`},
		{`{"algorithm":"meter","rate":"1/s","burst":0}`, "burst", "is 0, must be from 1 to 1000000"},
		{`{"algorithm":"meter","rate":"1/s","burst":-1}`, "burst", "is -1, must be from 1 to 1000000"},
		{`{"algorithm":"meter","rate":"1/s","burst":1e18}`, "burst", "must be a whole number from 1 to 1000000"},
		{`{"algorithm":"meter","rate":"1/s","burst":1000000000000000000}`, "burst", "must be from 1 to 1000000"},
		{
			`{"algorithm":"meter","rate":"1/s","burst":99999999999999999999}`, "burst",
			"must be a whole number from 1 to 1000000",
		},
		{`{"algorithm":"meter","rate":"1/s","burst":2.5}`, "burst", "must be a whole number from 1 to 1000000"},
		{`{"algorithm":"meter","rate":"1/s","burst":"2"}`, "burst", "must be a whole number"},
		{`{"algorithm":"meter","rate":"1/s","burst":NaN}`, "burst", "not valid JSON"},
		{`{"algorithm":"token_bucket","rate":"1/744h","burst":1000}`, "burst", "spans more than"},
		{
			`{"algorithm":"meter","rate":"1/s","limit":5}`, "limit",
			"has no effect with meter, which uses rate and burst; leave it out",
		},
		{`{"algorithm":"meter","rate":"1/s","limit":0}`, "limit", "has no effect with meter"},
		{`{"algorithm":"gap","period":"1s","rate":"unlimited"}`, "rate", "has no effect with gap"},
		{`{"algorithm":"gap","period":"1s","resolution":"0s"}`, "resolution", "has no effect with gap"},

		{
			`{"algorithm":"fixed_window","period":"1m"}`, "limit",
			"is missing or 0, but fixed_window needs it; use for example 100",
		},
		{
			`{"algorithm":"fixed_window","period":"1m","limit":0}`, "limit",
			"is missing or 0, but fixed_window needs it; use for example 100",
		},
		{`{"algorithm":"fixed_window","period":"1m","limit":-1}`, "limit", "is -1, must be from 1 to 1000000000"},
		{
			`{"algorithm":"fixed_window","period":"1m","limit":1e18}`, "limit",
			"must be a whole number from 1 to 1000000000",
		},
		{
			`{"algorithm":"sliding_counter","period":"1m","limit":1000000000000000000}`, "limit",
			"must be from 1 to 1000000000",
		},
		{
			`{"algorithm":"fixed_window","limit":5}`, "period",
			`is missing or 0s, but fixed_window needs it; use for example "1m"`,
		},
		{
			`{"algorithm":"fixed_window","limit":5,"period":"0s"}`, "period",
			`is missing or 0s, but fixed_window needs it; use for example "1m"`,
		},
		{`{"algorithm":"fixed_window","limit":5,"period":"-1s"}`, "period", "must be from 1ms to 8784h0m0s"},
		{
			`{"algorithm":"fixed_window","limit":5,"period":"876000h"}`, "period",
			"is 876000h0m0s, must be from 1ms to 8784h0m0s",
		},
		{`{"algorithm":"fixed_window","limit":5,"period":"100y"}`, "period", "is not a duration"},
		{`{"algorithm":"fixed_window","limit":5,"period":60}`, "period", `a string such as "30s"`},
		{`{"algorithm":"fixed_window","limit":5,"period":"1000.5us"}`, "period", "whole microseconds"},
		{`{"algorithm":"gap","period":"745h"}`, "period", "must be from 1ms to 744h0m0s"},
		{`{"algorithm":"sliding_log","limit":5,"period":"1s","resolution":"2s"}`, "resolution", "is 2s, must be from"},
		{
			`{"algorithm":"sliding_log","limit":5,"period":"1s","resolution":"-1s"}`, "resolution",
			"is -1s, must be from",
		},
		{
			`{"algorithm":"sliding_log","limit":1000000000,"period":"1h"}`, "resolution",
			"a limit of 1000000000 in 1h0m0s would need up to",
		},
		{`{"algorithm":"concurrency","limit":5}`, "ttl", "is missing or 0s, but concurrency"},
		{`{"algorithm":"concurrency","limit":10001,"ttl":"1s"}`, "limit", "is 10001, must be from 1 to 10000"},

		{`{"algorithm":"gap","period":"1s","key":"{to}"}`, "key", "is not a field of a job"},
		{`{"algorithm":"gap","period":"1s","key":["{lane}"]}`, "key", "must be a string"},
		{`{"algorithm":"gap","period":"1s","action":""}`, "action", "reject, defer or shadow"},
		{`{"algorithm":"gap","period":"1s","action":"drop"}`, "action", "reject, defer or shadow"},
		{`{"algorithm":"gap","period":"1s","away":""}`, "away", "open, closed or share"},
		{`{"algorithm":"gap","period":"1s","away":"ajar"}`, "away", "open, closed or share"},
		{`{"algorithm":"gap","period":"1s","overrides":[]}`, "overrides", "an object"},
		{`{"algorithm":"gap","period":"1s","overrides":{"":{"period":"1s"}}}`, "overrides", "empty key"},
		{`{"algorithm":"gap","period":"1s","overrides":{"k":{}}}`, "overrides.k.period", "is missing or 0s, but gap"},
		{`{"algorithm":"gap","period":"1s","overrides":{"k":null}}`, "overrides.k", "is null"},
		{
			`{"algorithm":"gap","period":"1s","overrides":{"k":{"period":"1s","limit":0}}}`, "overrides.k.limit",
			"has no effect with gap",
		},
		{
			`{"algorithm":"gap","period":"1s","overrides":{"k":{"period":"1s","key":"x"}}}`, "overrides.k.key",
			"is not a field",
		},
		{
			`{"algorithm":"gap","period":"1s","overrides":{"k":{"period":"1s"},"k":{"period":"1s"}}}`, "overrides.k",
			"twice",
		},
		{
			`{"algorithm":"meter","rate":"1/s","overrides":{"` + long + `":{"rate":"1/s","burst":0}}}`, "overrides.kkk",
			"is 0, must be from 1",
		},
		{
			`{"algorithm":"meter","rate":"1/s","overrides":{"` + long + `a":{"rate":"1/s","burst":2},"` + long +
				`b":{"rate":"1/s","limit":0}}}`,
			"overrides.kkk", "has no effect",
		},
		{
			`{"algorithm":"gap","period":"1s","overrides":{"` + strings.Repeat("k", 1025) + `":{"period":"1s"}}}`,
			"overrides", "1025 bytes, the limit is 1024",
		},
		{
			`{"algorithm":"gap","period":"1s","key":"` + strings.Repeat("x", MaxBytes) + `"}`, "rule",
			"the limit is 2097152",
		},
	} {
		_, err := Parse([]byte(tt.in))
		var fe *invalid.Error
		if !errors.As(err, &fe) || !strings.HasPrefix(fe.Field, tt.field) ||
			!strings.Contains(err.Error(), tt.reason) || len(err.Error()) > 600 {
			t.Errorf("%.120s: got %v, want field %s and %q", tt.in, err, tt.field, tt.reason)
		}
	}
}

// Overrides get their own defaults, however long the key, and the caller's rule is not changed.
func TestNormalizeOfARule(t *testing.T) {
	long := strings.Repeat("k", 500)
	r, err := Parse([]byte(
		`{"algorithm":"meter","rate":"1/s","overrides":{"` + long + `a":{"rate":"1/s","burst":7},"` + long +
			`b":{"rate":"2/s"}}}`,
	))
	if err != nil || r.Of(long+"a").Burst != 7 || r.Of(long+"b").Burst != 1 || r.Of("c").Burst != 1 {
		t.Errorf("got %+v, %v", r, err)
	}
	given := Rule{Algorithm: leaky.AlgorithmMeter, Overrides: map[string]Bound{"a": {Rate: rateOf("1/s")}}}
	before := maps.Clone(given.Overrides)
	r = given
	r.Normalize()
	if !maps.Equal(given.Overrides, before) || r.Overrides["a"].Burst != 1 {
		t.Errorf("given %+v, normalized %+v", given, r)
	}
	empty := Rule{Name: "r", Algorithm: leaky.AlgorithmGap, Overrides: map[string]Bound{}}
	empty.Normalize()
	bare := Rule{Name: "r", Algorithm: leaky.AlgorithmGap}
	bare.Normalize()
	a, _ := Encode(empty)
	if b, err := Encode(bare); !bytes.Equal(a, b) || err != nil {
		t.Errorf("%s and %s, %v", a, b, err)
	}
}

func TestTooManyOverrides(t *testing.T) {
	r := Rule{Name: "r", Algorithm: leaky.AlgorithmGap, Bound: Bound{Period: minute}, Overrides: map[string]Bound{}}
	for i := range MaxOverrides + 1 {
		r.Overrides[fmt.Sprint(i)] = Bound{Period: minute}
	}
	r.Normalize()
	field(t, "1001 overrides", r.Validate(), "overrides")
	delete(r.Overrides, "0")
	if err := r.Validate(); err != nil {
		t.Error(err)
	}
}

// A rule's limiter is valid exactly if its arithmetic accepts it.
func TestRulesAreWhatLimitersTake(t *testing.T) {
	rates := []leaky.Rate{{}, rateOf("5/s"), rateOf("1/744h"), rateOf("1000000/s")}
	numbers := []int64{
		-1, 0, 1, 5, leaky.MaxEntries, leaky.MaxEntries + 1, leaky.MaxBurst, leaky.MaxBurst + 1, leaky.MaxLimit,
		leaky.MaxLimit + 1, 1e18,
	}
	spans := []unit.Duration{
		-1, 0, 1, unit.Duration(time.Microsecond), unit.Duration(leaky.MinPeriod), minute, minute + 1,
		unit.Duration(leaky.MaxInterval), unit.Duration(leaky.MaxInterval) + 1000, unit.Duration(leaky.MaxPeriod),
		unit.Duration(leaky.MaxPeriod) + 1000,
	}
	check := func(a leaky.Algorithm, b Bound) {
		l, err := b.Limiter(a)
		if err != nil {
			t.Fatal(err)
		}
		r := Rule{Name: "r", Algorithm: a, Bound: b, Action: Reject, Away: AwayOpen}
		if wrong, bad := r.Validate(), l.Validate(); (wrong == nil) != (bad == nil) {
			t.Errorf("%s %+v: %v, but the limiter says %v", a, b, wrong, bad)
		}
	}
	for _, n := range numbers {
		for _, r := range rates {
			check(leaky.AlgorithmMeter, Bound{Rate: r, Burst: n})
			check(leaky.AlgorithmTokenBucket, Bound{Rate: r, Burst: n})
		}
		for _, d := range spans {
			check(leaky.AlgorithmFixedWindow, Bound{Limit: n, Period: d})
			check(leaky.AlgorithmSlidingCounter, Bound{Limit: n, Period: d})
			check(leaky.AlgorithmConcurrency, Bound{Limit: n, TTL: d})
			check(leaky.AlgorithmGap, Bound{Period: d})
			for _, e := range spans {
				check(leaky.AlgorithmSlidingLog, Bound{Limit: n, Period: d, Resolution: e})
			}
		}
	}
}

func FuzzParseRule(f *testing.F) {
	f.Add([]byte(
		`{"name":"a.b","algorithm":"meter","rate":"14/s","burst":2,"key":"{lane}","overrides":{"x":{"rate":"1/s"}}}`,
	))
	f.Add([]byte(`{"algorithm":"sliding_log","limit":0,"period":"1s","resolution":"1ms","action":"shadow"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Parse(data)
		if err != nil {
			var fe *invalid.Error
			if !errors.As(err, &fe) || fe.Field == "" {
				t.Fatalf("%v does not name a field", err)
			}
			return
		}
		if r.Name == "" {
			r.Name = "r"
		}
		b, err := Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := Parse(b); err != nil || !reflect.DeepEqual(back, r) {
			t.Fatalf("%s came back as %+v, %v", b, back, err)
		}
	})
}

// field checks that err is an *invalid.Error of that field, short enough to show.
func field(t *testing.T, what string, err error, want string) {
	t.Helper()
	var fe *invalid.Error
	if !errors.As(err, &fe) || fe.Field != want || fe.Reason == "" || !strings.HasPrefix(err.Error(), want+": ") ||
		len(err.Error()) > 500 {
		t.Errorf("%s: got %.600v, want an *invalid.Error of %q", what, err, want)
	}
}
