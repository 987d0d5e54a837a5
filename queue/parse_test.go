package queue

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/unit"
)

// An estimate without its number is not 0, by which jobs would leave without a limit.
func TestParseSpecRefusesAnEmptyEstimate(t *testing.T) {
	const limits = `"limits": [{"unit": "tokens", "rate": "1/s"}]`
	_, err := ParseSpec([]byte(`{"rate": "1/s", ` + limits + `, "estimate": {"tokens": {}}}`))
	var bad *invalid.Error
	if !errors.As(err, &bad) || bad.Field != "estimate.tokens.default" {
		t.Errorf("%v", err)
	}
	s, err := ParseSpec([]byte(`{"rate": "1/s", ` + limits + `, "estimate": {"tokens": {"default": 0}}}`))
	if err != nil || len(s.Estimate) != 1 {
		t.Errorf("%+v, %v", s.Estimate, err)
	}
}

func TestParseSpecFillsInDefaults(t *testing.T) {
	s, err := ParseSpec([]byte(` {"name": "email", "rate": "14/s"} ` + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := Spec{Name: "email", Rate: leaky.PerSecond(14)}
	want.Normalize()
	if !s.Equal(want) {
		t.Errorf("got %+v\nwant %+v", s, want)
	}
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
}

func TestParseSpecReadsEveryField(t *testing.T) {
	s, err := ParseSpec([]byte(`{
		"name": "ses.otp", "rate": "0.5/s", "burst": 3, "capacity": 12, "lease": "45s", "slack": "7ms",
		"retry": {"max_attempts": 4, "min_backoff": "2s", "max_backoff": "1h", "jitter": "none", "deadline": "3h"},
		"on_unknown": "dead", "adapt": {"floor": "20/m", "ceiling": "1/s"},
		"circuit": {"failures": 3, "min_probe": "2s", "max_probe": "9s", "slow": "8s", "off": true},
		"retention": {"for": "90m", "max": 77}, "overflow": "defer",
		"deferred": {"max_age": "80m", "low_water": 0.25, "max_jobs": 9,
			"readmit_between": "22:00-06:00", "timezone": "Europe/Berlin"},
		"max_in_flight": 50, "max_scheduled": 6, "ordered": true,
		"lanes": {"rate": "2/s", "burst": 2, "capacity": 5, "max_in_flight": 1,
			"overrides": {"gmail.com": {"rate": "10/s"}, "a b": {}}},
		"deliver": {"http": {"url": "https://example.com/", "n": 12345678901234567890}}}`))
	if err != nil {
		t.Fatal(err)
	}
	rate, _ := leaky.ParseRate("1/2s")
	floor, _ := leaky.ParseRate("20/m")
	want := Spec{
		Name: "ses.otp", Rate: rate, Burst: 3, Capacity: 12, Lease: unit.Duration(45 * time.Second),
		Slack: unit.Duration(7 * time.Millisecond),
		Retry: Retry{
			MaxAttempts: 4, MinBackoff: unit.Duration(2 * time.Second), MaxBackoff: unit.Duration(time.Hour), Jitter: "none",
			Deadline: unit.Duration(3 * time.Hour),
		},
		OnUnknown: UnknownDead, Adapt: Adapt{Floor: floor, Ceiling: leaky.PerSecond(1)},
		Circuit: Circuit{
			Failures: 3, MinProbe: unit.Duration(2 * time.Second), MaxProbe: unit.Duration(9 * time.Second),
			Slow: unit.Duration(8 * time.Second), Off: true,
		},
		Retention: Retention{For: unit.Duration(90 * time.Minute), Max: 77},
		Overflow:  Defer,
		Deferred: Deferral{
			MaxAge: unit.Duration(80 * time.Minute), LowWater: 0.25, MaxJobs: 9, ReadmitBetween: ReadmitIn("22:00-06:00"),
			Timezone: "Europe/Berlin",
		},
		Deliver: json.RawMessage(`{"http":{"url":"https://example.com/","n":12345678901234567890}}`),

		MaxInFlight: 50, MaxScheduled: 6, Ordered: true,
		Lanes: Lanes{
			LaneRule:  LaneRule{Rate: leaky.PerSecond(2), Burst: 2, Capacity: 5, MaxInFlight: 1},
			Overrides: map[string]LaneRule{"gmail.com": {Rate: leaky.PerSecond(10)}, "a b": {}},
		},
	}
	if !s.Equal(want) {
		t.Errorf("got %+v\nwant %+v", s, want)
	}
}

func TestParseSpecWithoutNameAndWithLongMinBackoff(t *testing.T) {
	s, err := ParseSpec([]byte(`{"rate":"unlimited","retry":{"min_backoff":"20m"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if s.Name != "" || !s.Rate.Unlimited() || s.Retry.MaxBackoff.D() != 20*time.Minute {
		t.Errorf("got %+v", s)
	}
}

func TestParseSpecRefuses(t *testing.T) {
	for _, tt := range []struct{ in, field, reason string }{
		{``, "spec", "not valid JSON"},
		{`nonsense`, "spec", "not valid JSON"},
		{`[]`, "spec", "must be a JSON object"},
		{`null`, "spec", "must be a JSON object"},
		{`"14/s"`, "spec", "must be a JSON object"},
		{`{"rate":"1/s"`, "spec", "not valid JSON"},
		{`{"rate":"1/s"} x`, "spec", "not valid JSON"},
		{`{"rate":"1/s"}{"rate":"1/s"}`, "spec", "not valid JSON"},
		{`{}`, "rate", "missing"},
		{`{"rate":null}`, "rate", "null"},
		{`{"rate":14}`, "rate", `a string such as "14/s"`},
		{`{"rate":"0/s"}`, "rate", "above zero"},
		{`{"rate":"-1/s"}`, "rate", "above zero"},
		{`{"rate":"1e9/s"}`, "rate", "invalid rate"},
		{`{"rate":"abc"}`, "rate", "invalid rate"},
		{`{"rate":"10/fortnight"}`, "rate", "invalid rate"},
		{`{"rate":""}`, "rate", "invalid rate"},
		{`{"rate":"1/s","rate":"2/s"}`, "rate", "twice"},
		{`{"rate":"1/s","Rate":"2/s"}`, "Rate", "not a field"},
		{`{"rate":"1/s","colour":"red"}`, "colour", "not a field"},
		{`{"rate":"1/s","retry":{"max_attemps":3}}`, "retry.max_attemps", "not a field"},
		{`{"rate":"1/s","retry":{"jitter":"full","jitter":"none"}}`, "retry.jitter", "twice"},
		{`{"rate":"1/s","retry":{"jitter":"some"}}`, "retry.jitter", "full or none"},
		{`{"rate":"1/s","retry":{"jitter":""}}`, "retry.jitter", "full or none"},
		{`{"rate":"1/s","retry":{"min_backoff":"1h","max_backoff":"1m"}}`, "retry.max_backoff", "below"},
		{`{"rate":"1/s","retry":{"max_attempts":0}}`, "retry.max_attempts", "is 0"},
		{`{"rate":"1/s","retry":[]}`, "retry", "an object"},
		{`{"rate":"1/s","capacity":0}`, "capacity", "is 0"},
		{`{"rate":"1/s","capacity":-5}`, "capacity", "is -5"},
		{`{"rate":"1/s","capacity":null}`, "capacity", "null"},
		{`{"rate":"1/s","capacity":1.5}`, "capacity", "whole number"},
		{`{"rate":"1/s","capacity":"10"}`, "capacity", "whole number"},
		{`{"rate":"1/s","capacity":99999999999999999999}`, "capacity", "whole number"},
		{`{"rate":"1/s","pull":true,"deliver":{"smtp":{"host":"a.test"}}}`, "pull", "must be http"},
		{`{"rate":"1/s","burst":0}`, "burst", "burst 0"},
		{`{"rate":"1/d","burst":1000}`, "burst", "spans more"},
		{`{"rate":"1/s","lease":"1ms"}`, "lease", "1ms"},
		{`{"rate":"1/s","lease":30}`, "lease", `a string such as "30s"`},
		{`{"rate":"1/s","lease":"half an hour"}`, "lease", "not a duration"},
		{`{"rate":"1/s","slack":"999us"}`, "slack", "999µs"},
		{`{"rate":"1/s","slack":"1000000ns1ns"}`, "slack", "whole microseconds"},
		{`{"rate":"1/s","retention":{"for":"1ms"}}`, "retention.for", "1ms"},
		{`{"rate":"1/s","retention":{"max":0}}`, "retention.max", "is 0"},
		{`{"rate":"1/s","overflow":"perhaps"}`, "overflow", "reject or defer"},
		{`{"rate":"1/s","overflow":""}`, "overflow", "reject or defer"},
		{`{"rate":"1/s","overflow":true}`, "overflow", "a string"},
		{`{"rate":"1/s","deferred":"24h"}`, "deferred", "an object"},
		{`{"rate":"1/s","deferred":{"age":"1h"}}`, "deferred.age", "not a field"},
		{`{"rate":"1/s","deferred":{"max_age":"1ms"}}`, "deferred.max_age", "1ms"},
		{`{"rate":"1/s","deferred":{"max_age":"25h"}}`, "deferred.max_age", "longer than retention.for"},
		{`{"rate":"1/s","deferred":{"low_water":0}}`, "deferred.low_water", "between 0 and 1"},
		{`{"rate":"1/s","deferred":{"low_water":1}}`, "deferred.low_water", "between 0 and 1"},
		{`{"rate":"1/s","deferred":{"low_water":"0.5"}}`, "deferred.low_water", "must be a number"},
		{`{"rate":"1/s","deferred":{"max_jobs":0}}`, "deferred.max_jobs", "is 0"},
		{`{"rate":"1/s","deferred":{"readmit_between":"22-6"}}`, "deferred.readmit_between", "two times of day"},
		{`{"rate":"1/s","deferred":{"readmit_between":"22:00-24:01"}}`, "deferred.readmit_between", "two times of day"},
		{
			`{"rate":"1/s","deferred":{"readmit_between":"22:00-22:00"}}`, "deferred.readmit_between",
			"begins when it ends",
		},
		{
			`{"rate":"1/s","deferred":{"readmit_between":"22:00-06:00","timezone":"Mars/Base"}}`, "deferred.timezone",
			"IANA",
		},
		{
			`{"rate":"1/s","deferred":{"timezone":"Europe/Berlin"}}`, "deferred.timezone",
			"without deferred.readmit_between",
		},
		{`{"rate":"1/s","max_in_flight":0}`, "max_in_flight", "leave it out for no limit"},
		{`{"rate":"1/s","max_in_flight":-1}`, "max_in_flight", "is -1"},
		{`{"rate":"1/s","max_in_flight":1000001}`, "max_in_flight", "is 1000001"},
		{`{"rate":"1/s","max_in_flight":"5"}`, "max_in_flight", "whole number"},
		{`{"rate":"1/s","max_scheduled":0}`, "max_scheduled", "leave it out for no limit"},
		{`{"rate":"1/s","max_scheduled":-1}`, "max_scheduled", "is -1"},
		{`{"rate":"1/s","ordered":"yes"}`, "ordered", "true or false"},
		{`{"rate":"1/s","ordered":1}`, "ordered", "true or false"},
		{`{"rate":"1/s","ordered":null}`, "ordered", "null"},
		{`{"rate":"1/s","lanes":null}`, "lanes", "null"},
		{`{"rate":"1/s","lanes":"2/s"}`, "lanes", "an object"},
		{`{"rate":"1/s","lanes":{"rate":2}}`, "lanes.rate", `a string such as "14/s"`},
		{`{"rate":"1/s","lanes":{"rate":"2"}}`, "lanes.rate", "invalid rate"},
		{`{"rate":"1/s","lanes":{"rate":"1/d","burst":1000}}`, "lanes.burst", "spans more"},
		{`{"rate":"1/s","lanes":{"burst":0}}`, "lanes.burst", "is 0"},
		{`{"rate":"1/s","lanes":{"capacity":0}}`, "lanes.capacity", "is 0"},
		{`{"rate":"1/s","lanes":{"capacity":-2}}`, "lanes.capacity", "is -2"},
		{`{"rate":"1/s","lanes":{"max_in_flight":1.5}}`, "lanes.max_in_flight", "whole number"},
		{`{"rate":"1/s","lanes":{"share":2}}`, "lanes.share", "not a field"},
		{`{"rate":"1/s","weight":0}`, "weight", "is 0, must be from 1 to 1000; to let nothing out, pause the queue"},
		{`{"rate":"1/s","weight":-1}`, "weight", "is -1, must be from 1 to 1000"},
		{`{"rate":"1/s","weight":1001}`, "weight", "is 1001, must be from 1 to 1000"},
		{`{"rate":"1/s","weight":1.5}`, "weight", "whole number"},
		{`{"rate":"1/s","weight":"3"}`, "weight", "whole number"},
		{`{"rate":"1/s","weight":null}`, "weight", "null"},
		{`{"rate":"1/s","lanes":{"weight":0}}`, "lanes.weight", "is 0, must be from 1 to 1000"},
		{`{"rate":"1/s","lanes":{"weight":1001}}`, "lanes.weight", "is 1001"},
		{`{"rate":"1/s","lanes":{"weight":1e18}}`, "lanes.weight", "whole number"},
		{`{"rate":"1/s","lanes":{"overrides":{"a.weight":{"weight":0}}}}`, "lanes.overrides.a.weight.weight", "is 0"},
		{`{"rate":"1/s","lanes":{"overrides":{"a":{"weight":-3}}}}`, "lanes.overrides.a.weight", "is -3"},
		{`{"rate":"1/s","lanes":{"LaneRule":{}}}`, "lanes.LaneRule", "not a field"},
		{`{"rate":"1/s","lanes":{"overrides":[]}}`, "lanes.overrides", "an object"},
		{`{"rate":"1/s","lanes":{"overrides":{"gmail.com":"10/s"}}}`, "lanes.overrides.gmail.com", "an object"},
		{`{"rate":"1/s","lanes":{"overrides":{"gmail.com":null}}}`, "lanes.overrides.gmail.com", "null"},
		{
			`{"rate":"1/s","lanes":{"overrides":{"gmail.com":{"rat":"10/s"}}}}`, "lanes.overrides.gmail.com.rat",
			"not a field",
		},
		{
			`{"rate":"1/s","lanes":{"overrides":{"gmail.com":{"overrides":{}}}}}`,
			"lanes.overrides.gmail.com.overrides", "not a field",
		},
		{
			`{"rate":"1/s","lanes":{"overrides":{"gmail.com":{"capacity":0}}}}`, "lanes.overrides.gmail.com.capacity",
			"is 0",
		},
		{
			`{"rate":"1/s","lanes":{"overrides":{"gmail.com":{"max_in_flight":-1}}}}`,
			"lanes.overrides.gmail.com.max_in_flight", "is -1",
		},
		{`{"rate":"1/s","lanes":{"overrides":{"gmail.com":{},"gmail.com":{}}}}`, "lanes.overrides.gmail.com", "twice"},
		{`{"rate":"1/s","lanes":{"overrides":{"":{}}}}`, "lanes.overrides", "not the key of a lane"},
		{
			`{"rate":"1/s","lanes":{"overrides":{"` + strings.Repeat("k", MaxLaneBytes+1) + `":{}}}}`,
			"lanes.overrides", "not the key of a lane",
		},
		{`{"rate":"1/s","deliver":[1]}`, "deliver", "an object"},
		{`{"rate":"1/s","deliver":{"a":1,"a":2}}`, "deliver.a", "twice"},
		{`{"rate":"1/s","deliver":{"a":"` + strings.Repeat("x", MaxDeliverBytes) + `"}}`, "deliver", "the limit is"},
		{`{"rate":"1/s","name":"` + strings.Repeat("x", MaxSpecBytes) + `"}`, "spec", "the limit is"},
		{
			`{"rate":"1/s","deliver":` + strings.Repeat("[", 50_000), "deliver.0.0",
			"is nested deeper than 64 levels, at byte 87",
		},
		{`{"rate":"1/s","name":"a b"}`, "name", "a b"},
		{`{"rate":"1/s","name":""}`, "name", "queue name"},
		{`{"rate":"1/s","name":7}`, "name", "a string"},
	} {
		_, err := ParseSpec([]byte(tt.in))
		var fe *invalid.Error
		if !errors.As(err, &fe) {
			t.Errorf("%.60s: got %v, want an *invalid.Error", tt.in, err)
			continue
		}
		if !strings.HasPrefix(fe.Field, tt.field) || !strings.Contains(err.Error(), tt.reason) ||
			len(err.Error()) > 600 {
			t.Errorf("%.60s: got %v, want field %s and %q", tt.in, err, tt.field, tt.reason)
		}
	}
}

// A target that is not an object may be a URL with a password: no error repeats it.
func TestParseSpecDoesNotQuoteTheTarget(t *testing.T) {
	for _, target := range []string{`"https://u:hunter2@a/?t=hunter2"`, `["hunter2"]`} {
		if _, err := ParseSpec([]byte(`{"rate":"1/s","deliver":` + target + `}`)); err == nil ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", target, err)
		}
	}
}

func TestEncodeSpecIsStable(t *testing.T) {
	base := Spec{Name: "email", Rate: leaky.PerSecond(14)}
	base.Normalize()
	with := func(deliver string) Spec { s := base; s.Deliver = json.RawMessage(deliver); return s }
	encode := func(s Spec) string {
		b, err := EncodeSpec(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	a, b := with(`{"b": [1, 2.50, 12345678901234567890], "a": "\u0041"}`), with(
		"{\"a\":\"A\",\n\"b\":[1,2.50,12345678901234567890]}",
	)
	if encode(a) != encode(b) || !a.Equal(b) {
		t.Errorf("the same target encoded as\n%s\n%s", encode(a), encode(b))
	}
	if !strings.Contains(encode(a), `"deliver":{"a":"A","b":[1,2.50,12345678901234567890]}`) {
		t.Errorf("numbers changed: %s", encode(a))
	}
	for _, none := range []string{"", "null", "{}", " { } "} {
		if s := with(none); encode(s) != encode(base) || !s.Equal(base) {
			t.Errorf("deliver %q is not the same as none: %s", none, encode(s))
		}
	}
	c := with(`{"a":"B"}`)
	if encode(a) == encode(c) || a.Equal(c) {
		t.Error("different targets look equal")
	}
	d := base
	d.Capacity++
	if encode(d) == encode(base) || d.Equal(base) {
		t.Error("different capacities look equal")
	}
	for _, s := range []Spec{base, a, c, d} {
		back, err := ParseSpec([]byte(encode(s)))
		if err != nil || !back.Equal(s) || encode(back) != encode(s) {
			t.Errorf("%s came back as %+v, %v", encode(s), back, err)
		}
	}
	if _, err := EncodeSpec(with(`{"a":`)); err == nil {
		t.Error("a broken deliver was encoded")
	}
}

func FuzzParseSpec(f *testing.F) {
	f.Add([]byte(`{"name":"email","rate":"14/s","burst":2,"deliver":{"http":{"url":"x"}}}`))
	f.Add([]byte(`{"rate":"1/s","retry":{"max_attempts":0}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ParseSpec(data)
		if err != nil {
			var fe *invalid.Error
			if !errors.As(err, &fe) || fe.Field == "" {
				t.Fatalf("%v does not name a field", err)
			}
			return
		}
		b, err := EncodeSpec(s)
		if err != nil {
			t.Fatal(err)
		}
		if s.Name == "" {
			b = []byte(strings.Replace(string(b), `"name":"",`, "", 1))
		}
		back, err := ParseSpec(b)
		if err != nil || !back.Equal(s) {
			t.Fatalf("%s came back as %+v, %v", b, back, err)
		}
	})
}

// Empty rules mean none, in any notation.
func TestParseSpecWithEmptyLanes(t *testing.T) {
	for _, lanes := range []string{`{}`, `{"overrides":{}}`, `{"rate":"unlimited"}`} {
		s, err := ParseSpec([]byte(`{"name":"a","rate":"1/s","lanes":` + lanes + `}`))
		bare := Spec{Name: "a", Rate: leaky.PerSecond(1), Lanes: Lanes{Overrides: map[string]LaneRule{}}}
		bare.Normalize()
		if err != nil || !s.Equal(bare) {
			t.Errorf("%s: %+v, %v", lanes, s, err)
		}
		if text, err := EncodeSpec(s); err != nil || strings.Contains(string(text), "lanes") {
			t.Errorf("%s: %s, %v", lanes, text, err)
		}
	}
}
