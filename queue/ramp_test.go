package queue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
)

func specWithLimit(limit string) string {
	return fmt.Sprintf(`{"rate":"1/s","limits":[%s]}`, limit)
}

func TestRampsAreValidated(t *testing.T) {
	for limit, want := range map[string]string{
		`"rate":"5/s","ramp":{"steps":[1,2]}`:                                    ": needs a quota",
		`"quota":"5/d","ramp":{"idle":"hold"}`:                                   ": must have steps such as [5, 10]",
		`"quota":"5/d","ramp":{"steps":[],"idle":"hold"}`:                        ".steps: has 0 steps",
		`"quota":"5/d","ramp":{"steps":[5],"idle":"hold"}`:                       ".steps: has 1 steps",
		`"quota":"5/d","ramp":{"steps":[4,9],"idle":"hold"}`:                     ".steps.0: is 4, must be 5",
		`"quota":"5/d","ramp":{"steps":[5,9,8],"idle":"hold"}`:                   ".steps.2: is 8, must be above",
		`"quota":"5/d","ramp":{"steps":[5,5],"idle":"hold"}`:                     ".steps.1: is 5, must be above",
		`"quota":"5/d","ramp":{"steps":[5,2000000000],"idle":"hold"}`:            ".steps.1: is 2000000000, must be from 1",
		`"quota":"5/d","ramp":{"steps":[5,-1],"idle":"hold"}`:                    ".steps.1: is -1, must be from 1",
		`"quota":"5/d","ramp":{"steps":[5,9],"factor":2,"idle":"hold"}`:          ": has steps and a factor",
		`"quota":"5/d","ramp":{"steps":[5,9],"until":9,"idle":"hold"}`:           ": has steps and a factor",
		`"quota":"5/d","ramp":{"until":9,"idle":"hold"}`:                         ": must have steps",
		`"quota":"5/d","ramp":{"factor":0.5,"until":9,"idle":"hold"}`:            ".factor: is 0.5, must be above 1",
		`"quota":"5/d","ramp":{"factor":1,"until":9,"idle":"hold"}`:              ".factor: is 1, must be above 1",
		`"quota":"5/d","ramp":{"factor":-2,"until":9,"idle":"hold"}`:             ".factor: is -2, must be above 1",
		`"quota":"5/d","ramp":{"factor":1e99,"until":9,"idle":"hold"}`:           ".factor: is 1e+99",
		`"quota":"5/d","ramp":{"factor":1.2345,"until":9,"idle":"hold"}`:         ".factor: is 1.2345",
		`"quota":"5/d","ramp":{"factor":2,"idle":"hold"}`:                        ".until: is missing",
		`"quota":"5/d","ramp":{"factor":2,"until":5,"idle":"hold"}`:              ".until: is 5, must be above the quota 5/d",
		`"quota":"5/d","ramp":{"factor":1.1,"until":50,"idle":"hold"}`:           ".factor: is 1.1, which does not raise 5",
		`"quota":"100/d","ramp":{"factor":1.01,"until":1000000,"idle":"hold"}`:   ".factor: is 1.01, which takes",
		`"quota":"5/d","ramp":{"steps":[5,9]}`:                                   ".from: is missing",
		`"quota":"5/d","ramp":{"steps":[5,9],"from":"tomorrow"}`:                 ".from: \"tomorrow\": must be a date",
		`"quota":"5/d","ramp":{"steps":[5,9],"from":"1999-12-31"}`:               ".from: \"1999-12-31\": must be a date",
		`"quota":"5/d","ramp":{"steps":[5,9],"from":"2026-02-30"}`:               ".from: \"2026-02-30\": must be a date",
		`"quota":"5/d","ramp":{"steps":[5,9],"from":"2026-12-01","idle":"wait"}`: ".idle: \"wait\": must be count or hold",
		`"quota":"5/d","ramp":{"steps":"5","idle":"hold"}`:                       ".steps",
		`"quota":"5/d","ramp":{"steps":[5.5,9],"idle":"hold"}`:                   ".steps",
		`"quota":"5/d","ramp":{"stepz":[5,9],"idle":"hold"}`:                     ".stepz",
		`"quota":"5/d","ramp":[5,9]`:                                             "",
	} {
		_, err := ParseSpec([]byte(specWithLimit("{" + limit + "}")))
		if err == nil || !strings.HasPrefix(err.Error(), "limits.0.ramp"+want) {
			t.Errorf("%s: %v, want limits.0.ramp%s", limit, err, want)
		}
	}
}

func TestRampSteps(t *testing.T) {
	for limit, want := range map[string]string{
		`"quota":"50/d","ramp":{"factor":2,"until":1000,"idle":"hold"}`:      "50 100 200 400 800 1000",
		`"quota":"100/w","ramp":{"factor":1.15,"until":150,"idle":"hold"}`:   "100 115 132 150",
		`"quota":"7/mo","ramp":{"steps":[7,8,1000000000],"idle":"hold"}`:     "7 8 1000000000",
		`"quota":"1/d","ramp":{"factor":99.999,"until":99,"idle":"hold"}`:    "1 99",
		`"quota":"2/d","ramp":{"factor":1.5,"until":10,"from":"2026-12-01"}`: "2 3 4 6 9 10",
	} {
		s, err := ParseSpec([]byte(specWithLimit("{" + limit + "}")))
		if err != nil {
			t.Errorf("%s: %v", limit, err)
			continue
		}
		text, err := EncodeSpec(s)
		if err != nil || !strings.Contains(string(text), limit) {
			t.Errorf("%s became %s, %v", limit, text, err)
		}
		q, err := s.Limits[0].QuotaRule(time.Now())
		if got := string(StepsOf(q.Ramp.Steps...)); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", limit, got, err, want)
		}
	}
}

// The step of a window does not depend on when its calendar was computed.
func TestRampsDoNotDependOnTheCalendar(t *testing.T) {
	for _, per := range []string{"d", "w", "mo"} {
		for _, zone := range []string{"", "Europe/Berlin", "Pacific/Apia", "America/Sao_Paulo"} {
			steps := make([]int64, 32)
			for i := range steps {
				steps[i] = int64(i + 1)
			}
			l := Limit{
				Quota: Quota{1, per}, Timezone: zone,
				Ramp: Ramp{Steps: StepsOf(steps...), From: "2011-12-20"},
			}
			begun := time.Date(2011, 12, 21, 12, 0, 0, 0, time.UTC)
			first, err := l.QuotaRule(begun)
			if err != nil {
				t.Fatal(err)
			}
			w := leaky.Window{Ends: first.Calendar.End(leaky.Instant(begun.UnixMicro()))}
			for want := first.Most(w); want < 32; want++ {
				for _, before := range []time.Duration{time.Microsecond, 20 * 24 * time.Hour, 40 * 24 * time.Hour} {
					q, err := l.QuotaRule(w.Ends.Time().Add(-before))
					if err != nil {
						t.Fatal(err)
					}
					if got := q.Most(w); got != want {
						t.Fatalf("%s in %s: %d in the window until %v, by a calendar of %v before; want %d", per, zone, got,
							w.Ends.Time(), before, want)
					}
				}
				next, err := l.QuotaRule(w.Ends.Time())
				if err != nil {
					t.Fatal(err)
				}
				w.Ends = next.Calendar.End(w.Ends)
			}
		}
	}
}
