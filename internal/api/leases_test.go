package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
)

// servePull is the API over a store on a file, and its dispatcher.
func servePull(t *testing.T, o pull.Options) (*fixture, queue.Engine) {
	e, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	dispatcher := pull.New(e, o)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- dispatcher.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	f := &fixture{t: t}
	f.serveOver(e, api.Options{Pull: dispatcher})
	return f, e
}

// pulled takes jobs and returns their ids with their leases, as settle and extend want them.
func (f *fixture) pulled(body string, want ...string) []string {
	f.t.Helper()
	a := f.do("POST", email+"/leases", body)
	a.want(f.t, 200)
	var v struct{ Jobs []struct{ ID, Lease string } }
	if err := json.Unmarshal([]byte(a.text), &v); err != nil {
		f.t.Fatal(err)
	}
	var ids, leases []string
	for _, j := range v.Jobs {
		ids = append(ids, j.ID)
		leases = append(leases, fmt.Sprintf(`"id":%q,"lease":%q`, j.ID, j.Lease))
	}
	if fmt.Sprint(ids) != fmt.Sprint(want) {
		f.t.Fatalf("took %v, want %v", ids, want)
	}
	return leases
}

func list(items ...string) string { return `{"jobs":[{` + strings.Join(items, "},{") + `}]}` }

// What a worker says of the receiver reaches the queue.
func TestSettlementsOfReceivers(t *testing.T) {
	f, e := servePull(t, pull.Options{})
	f.do(
		"PUT", email,
		`{"rate":"unlimited","pull":true,"retry":{"max_attempts":1},"circuit":{"failures":2,"min_probe":"1h",`+
			`"max_probe":"1h"}}`,
	).want(t, 201)
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		f.do("POST", jobs, `{"payload":1,"lane":"x","id":"`+id+`"}`).want(t, 202)
	}
	l := f.pulled(`{"max":10,"wait":"30s"}`, "a", "b", "c", "d", "e")
	for _, c := range []struct{ with, field string }{
		{`"outcome":"throttled"`, "jobs.0.after"},
		{`"outcome":"throttled","after":"25h"`, "jobs.0.after"},
		{`"outcome":"throttled","after":"-1s"`, "jobs.0.after"},
		{`"outcome":"delivered","after":"25h"`, "jobs.0.after"},
		{`"outcome":"delivered","after":"-1s"`, "jobs.0.after"},
		{`"outcome":"delivered","after":"0s","reason":"x"`, "jobs.0.reason"},
		{`"outcome":"delivered","reason":"x"`, "jobs.0.reason"},
		{`"outcome":"down","after":"1s"`, "jobs.0.after"},
		{`"outcome":"held","after":"1s"`, "jobs.0.after"},
		{`"outcome":"down","lane_only":true`, "jobs.0.lane_only"},
		{`"outcome":"delivered","lane_only":true`, "jobs.0.lane_only"},
		{`"outcome":"down","trouble":true`, "jobs.0.trouble"},
		{`"outcome":"throttled","after":"1s","trouble":true`, "jobs.0.trouble"},
		{`"outcome":"delivered","trouble":true`, "jobs.0.trouble"},
		{`"outcome":"retry","trouble":"yes"`, "jobs.0.trouble"},
		{`"outcome":"delivered","actual":{"tokens":null}`, "jobs.0.actual.tokens"},
		{`"outcome":"delivered","actual":{"tokens":-1}`, "jobs.0.actual.tokens"},
		{`"outcome":"delivered","actual":{"tokens":1e18}`, "jobs.0.actual.tokens"},
	} {
		f.do("POST", email+"/settle", list(l[0]+","+c.with)).want(t, 400, "reason", "invalid_field", "field", c.field)
	}
	settle := func(with, answer string) {
		t.Helper()
		if a := f.do("POST", email+"/settle", list(with)); a.text != `{"jobs":[{`+answer+`}]}`+"\n" {
			t.Errorf("%s: %s", with, a.text)
		}
	}
	info := func() queue.Info {
		t.Helper()
		i, err := e.Get(t.Context(), "email")
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	settle(l[0]+`,"outcome":"throttled","after":"2h","lane_only":true,"reason":"429 lane"`, `"id":"a","state":"waiting"`)
	if i, lane := info(), f.lane(e, "x"); !i.Stop.Until.IsZero() || time.Until(lane.Stop) < time.Hour || i.Throttled != 1 {
		t.Errorf("the lane stops until %v, the queue by %+v", lane.Stop, i.Stop)
	}
	settle(l[1]+`,"outcome":"throttled","after":"3h","reason":"429 queue"`, `"id":"b","state":"waiting"`)
	if i := info(); i.Stop.Cause != queue.StopThrottled || i.Stop.Reason != "429 queue" ||
		time.Until(i.Stop.Until) < 2*time.Hour {
		t.Errorf("the queue stops by %+v", i.Stop)
	}
	settle(l[2]+`,"outcome":"held","trouble":true,"reason":"lost"`, `"id":"c","state":"held"`)
	if i := info(); i.Circuit.Failures != 1 || i.Circuit.Open() {
		t.Errorf("after one in trouble the circuit is %+v", i.Circuit)
	}
	settle(l[3]+`,"outcome":"down","reason":"refused"`, `"id":"d","state":"waiting"`)
	if i := info(); !i.Circuit.Open() || i.Circuit.Reason != "refused" || i.Down != 1 {
		t.Errorf("after two the circuit is %+v", i.Circuit)
	}
	// what is down is no job's fault: it has one attempt
	settle(l[4]+`,"outcome":"retry","trouble":true,"after":"1h"`, `"id":"e","state":"scheduled"`)
	a := f.do("GET", email, "")
	for _, text := range []string{
		`"circuit_state":{"state":"open","failures":3,`, `"cause":"throttled","reason":"429 queue"`,
	} {
		if !strings.Contains(a.text, text) {
			t.Errorf("it is shown without %s: %s", text, a.text)
		}
	}
}

// A worker that has delivered says as well for how long the receiver asks to be spared.
func TestDeliveredThenAStop(t *testing.T) {
	f, e := servePull(t, pull.Options{})
	f.do("PUT", email, `{"rate":"unlimited","pull":true}`).want(t, 201)
	for _, id := range []string{"a", "b"} {
		f.do("POST", jobs, `{"payload":1,"id":"`+id+`"}`).want(t, 202)
	}
	l := f.pulled(`{"max":10,"wait":"30s"}`, "a", "b")
	said := list(l[0] + `,"outcome":"delivered","after":"3h","reason":"0 remain"`)
	for range 2 { // it may be repeated
		f.do("POST", email+"/settle", said).want(t, 200)
		i, err := e.Get(t.Context(), "email")
		if err != nil {
			t.Fatal(err)
		}
		if i.Delivered != 1 || i.Throttled != 0 || i.Stop.Cause != queue.StopThrottled || i.Stop.Reason != "0 remain" ||
			time.Until(i.Stop.Until) < 2*time.Hour {
			t.Errorf("%d delivered, %d throttled, the queue stops by %+v", i.Delivered, i.Throttled, i.Stop)
		}
	}
	f.do("POST", email+"/settle", list(l[1]+`,"outcome":"delivered","after":"0s"`)).want(t, 200) // which asks for nothing
}

func (f *fixture) lane(e queue.Engine, key string) queue.LaneInfo {
	f.t.Helper()
	_, lane, err := e.Lane(f.t.Context(), "email", key)
	if err != nil {
		f.t.Fatal(err)
	}
	return lane
}

func TestPulledJobsLife(t *testing.T) {
	f, e := servePull(t, pull.Options{})
	f.do(
		"PUT", email,
		`{"rate":"unlimited","pull":true,"lease":"1h","retry":{"max_attempts":2,"min_backoff":"1h","max_backoff":"1h",`+
			`"jitter":"none"}}`,
	).want(t, 201, "pull", true)
	if a := f.do("POST", email+"/leases", ""); a.text != `{"jobs":[]}`+"\n" {
		t.Errorf("nothing is %s", a.text)
	}
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		f.do("POST", jobs, `{"payload":1,"id":"`+id+`"}`).want(t, 202)
	}
	f.do("GET", jobs+"/a", "").want(t, 200, "why", map[string]any{"by": "puller"})
	l := f.pulled(`{"max":10,"wait":"30s","worker":"w1"}`, "a", "b", "c", "d", "e")
	f.pulled(`{}`)

	settle := list(l[0]+`,"outcome":"delivered"`, l[1]+`,"outcome":"retry","reason":"busy"`,
		l[2]+`,"outcome":"dead","reason":"no such user"`,
		l[3]+`,"outcome":"released"`, l[4]+`,"outcome":"retry","after":"0s"`)
	const settled = `{"jobs":[{"id":"a","state":"delivered"},{"id":"b","state":"scheduled"},{"id":"c","state":"dead"},` +
		`{"id":"d","state":"waiting"},{"id":"e","state":"scheduled"}]}` + "\n"
	for range 2 { // may be repeated
		if a := f.do("POST", email+"/settle", settle, "Content-Type", "application/json"); a.text != settled {
			t.Errorf("settled: %s", a.text)
		}
	}
	i, err := e.Job(t.Context(), "email", "b")
	if err != nil || i.Reason != "busy" || i.Attempts != 1 || time.Until(i.DueAt) < 59*time.Minute {
		t.Errorf("without an after the queue's backoff counts: %+v, %v", i, err)
	}
	if a := f.do("POST", email+"/settle", list(
		l[0]+`,"outcome":"dead"`, l[3]+`,"outcome":"delivered"`,
	)); a.text != `{"jobs":[{"id":"a","stale":true},{"id":"d","stale":true}]}`+"\n" {
		t.Errorf("settled in another way: %s", a.text)
	}

	m := f.pulled(`{"max":2,"wait":"30s"}`, "d", "e")
	if a := f.do("POST", email+"/extend", list(m[0], l[0])); !strings.HasPrefix(
		a.text, `{"jobs":[{"id":"d","expires_in_ms":3`,
	) || !strings.HasSuffix(a.text, `,{"id":"a","expires_in_ms":0}]}`+"\n") {
		t.Errorf("extended: %s", a.text)
	}
	if a := f.do(
		"POST", email+"/settle", list(m[1]+`,"outcome":"retry"`),
	); a.text != `{"jobs":[{"id":"e","state":"dead"}]}`+"\n" {
		t.Errorf("the last attempt: %s", a.text)
	}
	// A queue that is pulled from no more lets go what is out.
	f.do("PUT", email, `{"rate":"unlimited","lease":"1h"}`).want(t, 200, "pull", nil)
	f.do("POST", email+"/leases", "").want(t, 400, "reason", "invalid_field", "field", "queue")
	a := f.do("POST", email+"/settle", list(m[0]+`,"outcome":"delivered"`))
	if a.text != `{"jobs":[{"id":"d","state":"delivered"}]}`+"\n" {
		t.Errorf("settled later: %s", a.text)
	}
}

func TestBadPulls(t *testing.T) {
	f, _ := servePull(t, pull.Options{})
	f.do("PUT", email, `{"rate":"unlimited","pull":true}`).want(t, 201)
	f.do("PUT", "/v1/queues/email.child", `{"rate":"unlimited"}`).want(t, 400, "field", "name")
	f.do("PUT", "/v1/queues/a.b", `{"rate":"unlimited","pull":true}`).want(t, 201)
	const lease = `"id":"a","lease":"1-x"`
	many := strings.Repeat("{"+lease+"},", 500) + "{" + lease + "}"
	for _, c := range []struct{ path, body, reason, field string }{
		{"leases", `{"max":0}`, "invalid_field", "max"},
		{"leases", `{"max":501}`, "invalid_field", "max"},
		{"leases", `{"max":-1}`, "invalid_field", "max"},
		{"leases", `{"max":1e18}`, "invalid_field", "max"},
		{"leases", `{"max":"1"}`, "invalid_field", "max"},
		{"leases", `{"wait":"61s"}`, "invalid_field", "wait"},
		{"leases", `{"wait":"-1s"}`, "invalid_field", "wait"},
		{"leases", `{"wait":30}`, "invalid_field", "wait"},
		{"leases", `{"wait":"soon"}`, "invalid_field", "wait"},
		{"leases", `{"worker":"a b"}`, "invalid_field", "worker"},
		{"leases", `{"worker":"` + strings.Repeat("w", 65) + `"}`, "invalid_field", "worker"},
		{"leases", `{"most":1}`, "unknown_field", "most"},
		{"leases", `{"max":1,"max":1}`, "duplicate_field", "max"},
		{"leases", `{"max":1`, "invalid_json", ""},
		{"leases", `[]`, "invalid_field", ""},
		{"settle", ``, "invalid_json", ""},
		{"settle", `{"jobs":[]}`, "invalid_field", "jobs"},
		{"settle", `{"jobs":[` + many + `]}`, "invalid_field", "jobs"},
		{"settle", list(lease), "invalid_field", "jobs.0.outcome"},
		{"settle", list(lease + `,"outcome":"unknown"`), "invalid_field", "jobs.0.outcome"},
		{
			"settle", list(lease+`,"outcome":"delivered"`, lease+`,"outcome":"dead","after":"1s"`), "invalid_field",
			"jobs.1.after",
		},
		{"settle", list(lease + `,"outcome":"retry","after":"-1s"`), "invalid_field", "jobs.0.after"},
		{"settle", list(lease + `,"outcome":"retry","after":"721h"`), "invalid_field", "jobs.0.after"},
		{"settle", list(lease + `,"outcome":"retry","after":5`), "invalid_field", "jobs.0.after"},
		{"settle", list(lease + `,"outcome":"released","reason":"x"`), "invalid_field", "jobs.0.reason"},
		{"settle", list(`"id":"","lease":"1-x","outcome":"dead"`), "invalid_field", "jobs.0.id"},
		{"settle", list(`"id":"a","lease":"","outcome":"dead"`), "invalid_field", "jobs.0.lease"},
		{"settle", list(`"id":"a","lease":"x","outcome":"dead"`), "invalid_field", "jobs.0.lease"},
		{
			"settle", list(`"id":"a","lease":"1-` + strings.Repeat("x", 200) + `","outcome":"dead"`), "invalid_field",
			"jobs.0.lease",
		},
		{"settle", list(lease + `,"outcome":"dead","state":"dead"`), "unknown_field", "jobs.0.state"},
		{"extend", `{"jobs":[]}`, "invalid_field", "jobs"},
		{"extend", list(lease + `,"outcome":"dead"`), "unknown_field", "jobs.0.outcome"},
		{"extend", list(`"id":"a b","lease":"1-x"`), "invalid_field", "jobs.0.id"},
	} {
		a := f.do("POST", email+"/"+c.path, c.body)
		if field, _ := a.body["field"].(string); a.status != 400 || a.body["reason"] != c.reason || field != c.field {
			t.Errorf("%s %.80s: %d %.200s, want %s of %q", c.path, c.body, a.status, a.text, c.reason, c.field)
		}
	}
	reason := strings.Repeat("x", queue.MaxReasonBytes+1)
	f.do("POST", email+"/settle", list(
		lease+`,"outcome":"dead","reason":"`+reason+`"`,
	)).want(t, 413, "field", "jobs.0.reason")
	f.do("POST", email+"/leases", `{"worker":"`+strings.Repeat("x", 5000)+`"}`).want(t, 413)
	f.do("POST", email+"/leases", `{"max":1.5}`).want(t, 400, "field", "max", "detail", "is 1.5, must be a whole number")
	f.do("POST", email+"/leases", `{"max":9223372036854775808}`).want(
		t, 400, "field", "max", "detail", "is a number beyond 64 bits, must be a whole number",
	)
	for _, path := range []string{"settle", "extend"} { // no id is made here, as it is of a new job
		f.do("POST", email+"/"+path, `{"jobs":[{}]}`).want(
			t, 400, "field", "jobs.0.id", "detail", "is missing; give the id that came with the job",
		)
	}
	// also without a body: a web page may send that
	f.do("POST", email+"/leases", "", "Content-Type", "text/plain").want(t, 415)
	f.do("POST", email+"/settle", "{}", "Content-Type", "text/plain").want(t, 415)
	if a := f.do(
		"POST", email+"/settle", list(lease+`,"outcome":"dead"`),
	); a.text != `{"jobs":[{"id":"a","stale":true}]}`+"\n" {
		t.Errorf("a lease that never was: %s", a.text)
	}
	for path, body := range map[string]string{
		"leases": "", "settle": list(lease + `,"outcome":"dead"`), "extend": list(lease),
	} {
		f.do("POST", "/v1/queues/nobody/"+path, body).want(t, 404, "reason", "unknown_queue")
		f.do("POST", "/v1/queues/No%20Name/"+path, body).want(t, 404, "reason", "unknown_queue")
		f.do("GET", email+"/"+path, "").want(t, 405, "reason", "method_not_allowed")
	}
}

func TestTooManyPulls(t *testing.T) {
	f, e := servePull(t, pull.Options{MaxWaiting: 2, MaxQueue: 1})
	f.do("PUT", email, `{"rate":"unlimited","pull":true}`).want(t, 201)
	f.do("PUT", "/v1/queues/sms", `{"rate":"unlimited","pull":true}`).want(t, 201)
	answers := make(chan *answer, 2)
	lease := func(queue string) { // asks again where a question of the poll below was in its place
		for {
			a := f.do("POST", "/v1/queues/"+queue+"/leases", `{"wait":"60s"}`)
			if a.status != 429 && a.status != 503 {
				answers <- a
				return
			}
		}
	}
	go lease("email")
	poll(t, func() bool { return f.do("POST", email+"/leases", "").status == 429 })
	a := f.do("POST", email+"/leases", "")
	a.want(t, 429, "reason", "crowded")
	if a.header.Get("Retry-After") == "" {
		t.Error("without Retry-After")
	}
	go lease("sms")
	poll(t, func() bool { return f.do("POST", email+"/leases", "").status == 503 })
	f.do("POST", email+"/leases", "").want(t, 503, "reason", "overloaded")
	for _, q := range []string{"email", "sms"} {
		if _, err := e.Append(t.Context(), []queue.Job{{Queue: q, ID: "x"}}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		(<-answers).want(t, 200)
	}
}
