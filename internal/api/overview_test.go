package api_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/survey"
	"github.com/penstock/penstock/internal/test/attend"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

// rowsOf are the rows of an overview.
func rowsOf(t *testing.T, a *answer) (rows []map[string]any, names string) {
	t.Helper()
	a.want(t, 200)
	list, _ := a.body["queues"].([]any)
	for _, row := range list {
		fields, _ := row.(map[string]any)
		rows = append(rows, fields)
		names += " " + fmt.Sprint(fields["name"])
	}
	return rows, strings.TrimSpace(names)
}

// surveyed is the API over an engine whose queues are read when the test says so, a step after they were.
func surveyed(t *testing.T, f *fixture, e queue.Engine) (s *survey.Survey, read func()) {
	now := epoch
	s = survey.New(e, survey.Options{Now: func() time.Time { return now }})
	f.serveOver(e, api.Options{Survey: s})
	return s, func() {
		t.Helper()
		now = now.Add(survey.Step)
		if err := s.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOverview(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture, e queue.Engine) {
		_, read := surveyed(t, f, e)
		f.do("GET", "/v1/overview", "").want(t, 200, "queues", []any{}, "total", 0, "next", nil)
		for n, name := range []string{"a", "b", "c"} {
			f.do("PUT", "/v1/queues/"+name, `{"rate":"10/s","capacity":2}`).want(t, 201)
			for job := range n {
				f.do("POST", "/v1/queues/"+name+"/jobs", fmt.Sprintf(`{"payload":1,"id":"%d"}`, job)).want(t, 202)
			}
		}
		f.do("POST", "/v1/queues/b/pause", `{"reason":"why not"}`).want(t, 200)
		read()
		for query, want := range map[string]string{
			"":                    "a b c",
			"?sort=-fill":         "c b a",
			"?sort=-name":         "c b a",
			"?sort=fill&limit=2":  "a b",
			"?state=paused,idle":  "a b",
			"?full=true":          "c",
			"?name=c":             "c",
			"?offset=1&limit=1":   "b",
			"?offset=3":           "",
			"?sort=-state&name=b": "b",
		} {
			if _, names := rowsOf(t, f.do("GET", "/v1/overview"+query, "")); names != want {
				t.Errorf("%s: %q, want %q", query, names, want)
			}
		}
		f.do("GET", "/v1/overview?limit=2", "").want(t, 200, "total", 3, "next", 2)
		f.do("GET", "/v1/overview?limit=1&offset=2", "").want(t, 200, "total", 3, "next", nil)
		rows, _ := rowsOf(t, f.do("GET", "/v1/overview?sort=-fill", ""))
		for field, want := range map[string]any{
			"size": 2.0, "capacity": 2.0, "fill": 1.0, "waiting": 2.0, "rate": "10/s", "per_second": 10.0, "dead": 0.0,
		} {
			if rows[0][field] != want {
				t.Errorf("%s is %v, want %v", field, rows[0][field], want)
			}
		}
		for n, want := range map[int]string{0: "drainer", 1: "paused"} { // c and b
			o, _ := rows[n]["outlook"].(map[string]any)
			if o["why"] != want || o["finish_at"] != nil || o["delay_seconds"] != nil || o["exact"] != false {
				t.Errorf("the outlook of %v is %v", rows[n]["name"], o)
			}
		}
		if state, _ := rows[1]["status"].(map[string]any); state["code"] != "paused" || state["reason"] != "why not" {
			t.Errorf("%+v", rows[1])
		}
		for query, field := range map[string]string{
			"?sort=colour": "sort", "?state=asleep": "state", "?full=perhaps": "full", "?offset=-1": "offset",
			"?offset=x": "offset", "?limit=0": "limit",
		} {
			f.do("GET", "/v1/overview"+query, "").want(t, 400, "reason", "invalid_field", "field", field)
		}
		f.do("GET", "/v1/overview?sort=in&sort=out", "").want(t, 400, "reason", "duplicate_field", "field", "sort")
	})
}

func TestHistories(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture, e queue.Engine) {
		s, read := surveyed(t, f, e)
		const history = email + "/history"
		f.do("GET", history, "").want(t, 404, "reason", "unknown_queue")
		f.do("PUT", email, `{"rate":"10/s"}`).want(t, 201)
		f.do("GET", history, "").want(t, 200, "since", nil, "instance", s.Instance(), "step", 5)
		for _, id := range []string{"a", "b", "c"} {
			f.do("POST", jobs, `{"payload":1,"id":"`+id+`"}`).want(t, 202)
		}
		read()
		depthOf := func(values any) []any {
			t.Helper()
			columns, _ := values.(map[string]any)
			depth, _ := columns["depth"].([]any)
			return depth
		}
		a := f.do("GET", history, "")
		a.want(t, 200)
		depth := depthOf(a.body["values"])
		if len(depth) != 180 || depth[179] != 3.0 || depth[0] != nil || a.body["since"] == nil {
			t.Errorf("%.300s", a.text)
		}
		a = f.do("GET", history+"?window=24h&columns=depth", "")
		a.want(t, 200, "step", 300)
		if depth := depthOf(a.body["values"]); len(depth) != 288 || depth[287] != 3.0 {
			t.Errorf("%.300s", a.text)
		}
		if columns := a.body["values"].(map[string]any); len(columns) != 1 {
			t.Errorf("%d columns", len(columns))
		}
		a = f.do("GET", "/v1/history?queues=none,email&columns=in,depth", "")
		a.want(t, 200, "instance", s.Instance())
		queues, _ := a.body["queues"].(map[string]any)
		one, _ := queues["email"].(map[string]any)
		if depth := depthOf(one["values"]); len(queues) != 1 || depth[179] != 3.0 {
			t.Errorf("%.300s", a.text)
		}
		for _, path := range []string{history + "?", "/v1/history?queues=a&"} {
			f.do("GET", path+"window=1h", "").want(t, 400, "reason", "invalid_field", "field", "window")
			f.do("GET", path+"columns=in,colour", "").want(t, 400, "reason", "invalid_field", "field", "columns")
			f.do("GET", path+"window=15m&window=15m", "").want(t, 400, "reason", "duplicate_field", "field", "window")
		}
		f.do("GET", "/v1/history", "").want(t, 400, "reason", "invalid_field", "field", "queues")
		f.do("GET", "/v1/history?queues=a&queues=b", "").want(t, 400, "reason", "duplicate_field", "field", "queues")
		f.do("GET", "/v1/history?queues="+strings.Repeat("a,", 200)+"a", "").want(
			t, 400, "reason", "invalid_field", "field", "queues",
		)
	})
}

// Of others' queues nothing is shown, nor why their parent stands still.
func TestOverviewHidesWhatIsForeign(t *testing.T) {
	s := secure(t, api.Options{})
	s.by(s.operator, "POST", "/v1/queues/ses/pause", `{"reason":"secret"}`).want(t, 200)
	acme := s.token("acme", auth.Grant{Role: auth.View})
	rows, names := rowsOf(t, s.by(acme, "GET", "/v1/overview", ""))
	if names != acmeQueue+" "+acmeChild {
		t.Errorf("%q", names)
	}
	if state, _ := rows[1]["status"].(map[string]any); state["code"] != "parent_paused" || state["reason"] != nil {
		t.Errorf("%+v", rows[1])
	}
	some := s.token("acme", auth.Grant{Role: auth.View, Prefix: acmeChild})
	if _, names := rowsOf(t, s.by(some, "GET", "/v1/overview", "")); names != acmeChild {
		t.Errorf("%q", names)
	}
	a := s.by(acme, "GET", "/v1/history?queues="+betaQueue+","+acmeQueue+",ses", "")
	a.want(t, 200)
	if queues, _ := a.body["queues"].(map[string]any); len(queues) != 1 || queues[acmeQueue] == nil {
		t.Errorf("%.300s", a.text)
	}
}

// The forecasts of the queues that the caller may view, or of some of them, in sum.
func TestSumOfForecasts(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture, e queue.Engine) {
		_, read := surveyed(t, f, e)
		f.do("GET", "/v1/forecast", "").want(t, 200, "exact", false, "missing", nil)
		for _, name := range []string{"mail", "sms"} {
			f.do("PUT", "/v1/queues/"+name, `{"rate":"1/s"}`).want(t, 201)
			for range 10 {
				f.do("POST", "/v1/queues/"+name+"/jobs", `{"payload":1}`).want(t, 202)
			}
		}
		attend.Queues(t, e)
		read()
		for query, want := range map[string][2]float64{ // jobs and seconds
			"": {20, 9}, "?queues=sms": {10, 9}, "?queues=none": {0, 0}, "?name=s": {10, 9}, "?name=x": {0, 0},
		} {
			a := f.do("GET", "/v1/forecast"+query, "")
			a.want(t, 200, "exact", want[0] > 0, "missing", nil)
			now, _ := time.Parse(time.RFC3339Nano, fmt.Sprint(a.body["now"]))
			bends, _ := a.body["bends"].([]any)
			if first, _ := bends[0].(map[string]any); first["remaining"] != want[0] {
				t.Errorf("%s: %s", query, a.text)
			}
			finish, err := time.Parse(time.RFC3339Nano, fmt.Sprint(a.body["finish_at"]))
			if want[1] > 0 && (err != nil || math.Abs(finish.Sub(now).Seconds()-want[1]) > 2) {
				t.Errorf("%s: %v, %s", query, err, a.text)
			}
		}
		f.do("GET", "/v1/forecast?queues=a&name=b", "").want(t, 400, "reason", "invalid_field", "field", "name")
		f.do("GET", "/v1/forecast?queues=", "").want(t, 400, "reason", "invalid_field", "field", "queues")
		f.do("GET", "/v1/forecast?name=a&name=b", "").want(t, 400, "reason", "duplicate_field", "field", "name")
		f.do("GET", "/v1/curves?name=m", "").want(t, 200)
	})
}

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
