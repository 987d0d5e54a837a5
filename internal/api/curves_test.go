package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

// The curves sum up the queues that the caller may view, or some of them.
func TestCurves(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture, e queue.Engine) {
		s, read := surveyed(t, f, e)
		f.do("PUT", email, `{"rate":"10/s"}`).want(t, 201)
		f.do("PUT", "/v1/queues/sms", `{"rate":"10/s"}`).want(t, 201)
		read()
		for _, id := range []string{"a", "b", "c"} {
			f.do("POST", jobs, `{"payload":1,"id":"`+id+`"}`).want(t, 202)
			f.do("POST", "/v1/queues/sms/jobs", `{"payload":1,"id":"`+id+`"}`).want(t, 202)
		}
		f.do("POST", jobs+"/a/cancel", "").want(t, 200)
		f.do("POST", email+"/pause", `{"reason":"late"}`).want(t, 200)
		read()
		for query, want := range map[string]string{
			"": "6 1", "?queues=email": "3 1", "?queues=sms,none": "3 0", "?queues=none": "0 0", "?window=24h": "6 1",
			"?window=1h&queues=email,sms": "6 1",
		} {
			var got wire.Curves
			a := f.do("GET", "/v1/curves"+query, "")
			a.want(t, 200, "instance", s.Instance())
			if err := json.Unmarshal([]byte(a.text), &got); err != nil {
				t.Fatal(err)
			}
			last := got.Points[len(got.Points)-1]
			if text := fmt.Sprint(last.Arrived, last.Left); text != want || got.Points[0].Left != 0 {
				t.Errorf("%s: %s, want %s: %s", query, text, want, a.text)
			}
			marks := strings.Contains(a.text, `"kind":"paused","text":"late"`)
			if seen := query == "" || strings.Contains(query, "email") || strings.Contains(query, "24h"); marks != seen {
				t.Errorf("%s: the pause is marked: %v in %s", query, marks, a.text)
			}
		}
		f.do("GET", "/v1/curves?window=2h", "").want(t, 400, "reason", "invalid_field", "field", "window")
		f.do("GET", "/v1/curves?window=1h&window=1h", "").want(t, 400, "reason", "duplicate_field", "field", "window")
		f.do("GET", "/v1/curves?queues=", "").want(t, 400, "reason", "invalid_field", "field", "queues")
	})
}

// Of others' queues the curves show neither jobs nor marks, and deployments are the operator's business.
func TestCurvesHidesWhatIsForeign(t *testing.T) {
	s := secure(t, api.Options{})
	acme := s.token("acme", auth.Grant{Role: auth.View})
	s.by(acme, "GET", "/v1/curves", "").want(t, 200)
	s.by(s.operator, "POST", "/v1/queues/ses/pause", `{"reason":"secret"}`).want(t, 200)
	s.by(s.operator, "POST", "/v1/queues/"+acmeQueue+"/pause", `{"reason":"ours"}`).want(t, 200)
	if err := s.survey.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := s.by(s.operator, "GET", "/v1/curves", ""); !strings.Contains(a.text, "secret") ||
		!strings.Contains(a.text, "ours") {
		t.Errorf("the operator sees %s", a.text)
	}
	if a := s.by(acme, "GET", "/v1/curves", ""); strings.Contains(a.text, "secret") || !strings.Contains(a.text, "ours") {
		t.Errorf("the app sees %s", a.text)
	}
}
