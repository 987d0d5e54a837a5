package api_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
)

const (
	changes  = email + "/changes"
	rollback = email + "/rollback"
)

// Who makes a change is refused if it cannot be shown as it is, before anything is changed.
func TestBy(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture, e queue.Engine) {
		f.do("PUT", email, `{"rate":"1/s"}`, "Penstock-By", "ann@désk").want(t, 201)
		for _, name := range []string{
			strings.Repeat("x", 129), strings.Repeat("é", 65), "ann\tbob", "\xff\xfe", "ann\u0085", "ann\u2028bob",
			"ann\u2029bob", "ann\u202ebob", "ann\u200bbob",
		} {
			for _, c := range []struct{ method, path, body string }{
				{"PUT", email, `{"rate":"2/s"}`},
				{"DELETE", email, ""},
				{"POST", email + "/pause", "{}"},
				{"POST", email + "/resume", ""},
				{"POST", rollback, "{}"},
				{"POST", email + "/purge", ""},
				{"POST", email + "/replay", "{}"},
				{"POST", email + "/forget", "{}"},
				{"POST", email + "/decide", `{"decision":"dead"}`},
				{"POST", email + "/jobs/a/cancel", ""},
				{"POST", email + "/jobs/a/replay", ""},
				{"POST", email + "/jobs/a/decide", `{"decision":"dead"}`},
				{"DELETE", email + "/jobs/a", ""},
				{"PUT", "/v1/rules/r", `{"algorithm":"meter","rate":"1/s"}`},
				{"DELETE", "/v1/rules/r", ""},
				{"POST", "/v1/rules/r/reset", `{"all":true}`},
			} {
				a := f.do(c.method, c.path, c.body, "Penstock-By", name)
				if a.want(t, 400, "reason", "invalid_request", "field", "Penstock-By"); a.status != 400 {
					t.Errorf("%s %s by %q", c.method, c.path, name)
				}
			}
		}
		f.do("POST", email+"/pause", "", "Penstock-By", strings.Repeat("é", 64)).want(t, 200)
		f.do("POST", email+"/resume", "", "Penstock-By", "ann", "Penstock-By", "bob").want(t, 200)
		f.do("PUT", email, `{"rate":"2/s"}`, "Penstock-By", "").want(t, 200)
		page, err := e.Changes(t.Context(), queue.ChangesRequest{Subject: queue.OfQueue, Name: "email", Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		list := page.Changes
		var by []string
		for i := range list {
			by = append(by, string(list[i].What)+" "+list[i].By+list[i].Note)
		}
		if want := []string{
			"changed ", "resumed ann, bob", "paused " + strings.Repeat("é", 64), "created ann@désk",
		}; fmt.Sprint(by) != fmt.Sprint(want) {
			t.Errorf("%q, want %q", by, want)
		}
	})
}

func TestChanges(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture, _ queue.Engine) {
		f.do("GET", changes, "").want(t, 404, "reason", "unknown_queue")
		f.do("PUT", email, `{"rate":"1/s"}`).want(t, 201)
		for n := range queue.MaxChanges {
			f.do("PUT", email, fmt.Sprintf(`{"rate":"%d/m"}`, n+1)).want(t, 200)
		}
		for limit, n := range map[string]int{
			"": queue.MaxChanges, "?limit=": queue.MaxChanges, "?limit=1": 1, "?limit=99": 99, "?limit=100": queue.MaxChanges,
		} {
			a := f.do("GET", changes+limit, "")
			list, _ := a.body["changes"].([]any)
			if a.status != 200 || len(list) != n {
				t.Errorf("%s: %d, %d changes, want %d", limit, a.status, len(list), n)
				continue
			}
			latest, _ := list[0].(map[string]any)
			if after, _ := latest["after"].(map[string]any); latest["what"] != "changed" || after["rate"] != "100/m" {
				t.Errorf("%s begins with %v", limit, latest)
			}
		}
		for _, limit := range []string{
			"0", "-1", "101", "1.5", "1e1", "+", "x", "99999999999999999999", "%00", strings.Repeat("9", 2000),
		} {
			f.do("GET", changes+"?limit="+limit, "").want(t, 400, "reason", "invalid_field", "field", "limit")
		}
		f.do("DELETE", email, "").want(t, 204)
		f.do("GET", changes+"?limit=1", "").want(t, 200)
	})
}

// A rollback insists on the revision that was seen, tells what it could go to, and shows without doing.
func TestRollback(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture, e queue.Engine) {
		f.do("POST", rollback, "").want(t, 404, "reason", "unknown_queue")
		var tags []string
		var revisions []any
		for n := range 3 {
			a := f.do("PUT", email, fmt.Sprintf(`{"rate":"%d/s"}`, n+1))
			tags, revisions = append(tags, a.header.Get("ETag")), append(revisions, a.body["revision"])
		}
		f.do("POST", rollback, "", "If-Match", tags[1]).want(t, 412, "reason", "revision_mismatch", "revision", revisions[2])
		f.do("POST", rollback, `{"dry_run":true}`, "If-Match", tags[1]).want(t, 412, "reason", "revision_mismatch")
		f.do("POST", rollback, "", "If-None-Match", "*").want(t, 412, "revision", revisions[2])
		f.do("POST", rollback, `{"revision":999999}`, "If-Match", tags[2]).want(
			t, 404, "reason", "unknown_revision", "field", "revision", "revisions",
			[]any{revisions[2], revisions[1], revisions[0]},
		)
		for body, field := range map[string]string{
			`{"revision":-1}`: "revision", `{"revision":"1"}`: "revision", `{"revision":1.5}`: "revision",
			`{"dry_run":1}`: "dry_run",
		} {
			f.do("POST", rollback, body).want(t, 400, "reason", "invalid_field", "field", field)
		}
		f.do("POST", rollback, `{"to":1}`).want(t, 400, "reason", "unknown_field", "field", "to")
		f.do("POST", rollback, `{`).want(t, 400, "reason", "invalid_json")
		f.do("POST", rollback, `{}`, "Content-Type", "text/plain").want(t, 415)

		to := fmt.Sprintf("%.0f", revisions[0])
		a := f.do("POST", rollback, `{"revision":`+to+`,"dry_run":true}`, "If-Match", tags[2])
		if a.want(t, 200, "rate", "1/s", "revision", revisions[2], "stats", nil); a.header.Get("ETag") != tags[2] {
			t.Errorf("ETag %s, want %s", a.header.Get("ETag"), tags[2])
		}
		if i, err := e.Get(t.Context(), "email"); err != nil || i.Spec.Rate.String() != "3/s" {
			t.Errorf("a dry run changed it: %v, %v", i.Spec.Rate, err)
		}
		f.do("POST", rollback, `{"revision":`+to+`}`, "If-Match", tags[2]).want(
			t, 200, "rate", "1/s", "warnings", a.body["warnings"],
		)
		if warnings, _ := a.body["warnings"].([]any); len(warnings) != 1 {
			t.Errorf("a spec without a target comes again, and the warnings are %v", a.body["warnings"])
		}
		f.do("POST", rollback, "").want(t, 200, "rate", "3/s") // the one before that
	})
}

// What was done since the spec was changed does not hide at which revision the queue is.
func TestRollbackAfterManyPauses(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture, e queue.Engine) {
		made := f.do("PUT", email, `{"rate":"1/s"}`)
		for range queue.MaxChanges / 2 {
			f.do("POST", email+"/pause", "").want(t, 200)
			f.do("POST", email+"/resume", "").want(t, 200)
		}
		f.do("POST", rollback, "", "If-Match", made.header.Get("ETag")).want(t, 404, "reason", "unknown_revision")
		f.do("POST", rollback, "", "If-Match", `"999999"`).want(t, 412, "revision", made.body["revision"])
	})
}

// The record is read in pages, by what was done and when; who did it is called a claim.
func TestChangesChosen(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture, _ queue.Engine) {
		f.do("PUT", email, `{"rate":"1/s"}`, "Penstock-By", "ann").want(t, 201)
		for id := range 3 {
			f.do("POST", email+"/jobs", fmt.Sprintf(`{"id":"j%d","payload":1}`, id)).want(t, 202)
		}
		f.do("POST", email+"/jobs/j0/cancel", "", "Penstock-By", "bob").want(t, 200)
		f.do("POST", email+"/purge", "", "Penstock-By", "ann").want(t, 200)
		a := f.do("GET", changes+"?limit=1", "")
		list, _ := a.body["changes"].([]any)
		latest, _ := list[0].(map[string]any)
		if latest["what"] != "purged" || latest["jobs"] != float64(2) || latest["claimed_by"] != "ann" ||
			latest["number"] != float64(3) || latest["detail"] != "waiting" || a.body["dropped"] != float64(0) {
			t.Errorf("%v", a.body)
		}
		a = f.do("GET", changes+fmt.Sprintf("?before=%v", a.body["next"]), "")
		if list, _ = a.body["changes"].([]any); len(list) != 2 || a.body["next"] != nil {
			t.Errorf("the second page: %v", a.body)
		}
		if second, _ := list[0].(map[string]any); fmt.Sprint(second["ids"]) != "[j0]" || second["what"] != "cancelled" {
			t.Errorf("%v", second)
		}
		for query, n := range map[string]int{
			"?what=created,cancelled": 2, "?what=created&what=paused": 1, "?since=2000-01-01T00:00:00Z": 3,
			"?until=2000-01-01T00:00:00%2B02:00": 0,
		} {
			a := f.do("GET", changes+query, "")
			if list, _ := a.body["changes"].([]any); a.status != 200 || len(list) != n {
				t.Errorf("%s: %d, %v", query, a.status, a.body)
			}
		}
		for query, field := range map[string]string{
			"before=0": "before", "before=-1": "before", "before=x": "before", "what=x": "what", "what=paused,": "what",
			"since=yesterday": "since", "until=1": "until",
		} {
			f.do("GET", changes+"?"+query, "").want(t, 400, "reason", "invalid_field", "field", field)
		}
	})
}

func TestRuleChanges(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture, _ queue.Engine) {
		f.do("GET", "/v1/rules/r/changes", "").want(t, 404, "reason", "unknown_rule")
		f.do("PUT", "/v1/rules/r", `{"algorithm":"meter","rate":"1/s"}`, "Penstock-By", "ann").want(t, 201)
		f.do("PUT", "/v1/rules/r", `{"algorithm":"meter","rate":"2/s","overrides":{"vip":{"rate":"9/s"}}}`).want(t, 200)
		f.do("POST", "/v1/rules/r/reset", `{"all":true}`).want(t, 204)
		f.do("DELETE", "/v1/rules/r", "").want(t, 204)
		a := f.do("GET", "/v1/rules/r/changes", "")
		list, _ := a.body["changes"].([]any)
		if a.status != 200 || len(list) != 4 {
			t.Fatalf("%d, %v", a.status, a.body)
		}
		put, _ := list[2].(map[string]any)
		before, _ := put["before"].(map[string]any)
		after, _ := put["after"].(map[string]any)
		if before["rate"] != "1/s" || after["rate"] != "2/s" || after["overrides"] != nil || put["what"] != "changed" {
			t.Errorf("%v", put)
		}
		f.do("GET", "/v1/rules/r/changes?limit=0", "").want(t, 400, "field", "limit")
	})
}

// Each request that changed something leaves one line in the log, with how many jobs it was done to; others leave none.
func TestChangesLogged(t *testing.T) {
	e, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	var log bytes.Buffer
	f := &fixture{t: t}
	f.serveOver(e, api.Options{Logger: slog.New(slog.NewJSONHandler(&log, nil))})
	for _, step := range []struct {
		method, path, body string
		want               string // of the line, "" is none
	}{
		{"PUT", email, `{"rate":"1/s"}`, `"what":"created","queue":"email","claimed_by":"ann","revision":`},
		{"PUT", email, `{"rate":"1/s"}`, ""},
		{"GET", email, "", ""},
		{"POST", email + "/jobs", `{"id":"a","payload":1}`, ""},
		{
			"POST", email + "/pause", `{"reason":"tests"}`,
			`"what":"paused","queue":"email","claimed_by":"ann","reason":"tests"`,
		},
		{"POST", email + "/jobs/nobody/cancel", "", ""},
		{"POST", email + "/purge", "", `"what":"purged","queue":"email","claimed_by":"ann","jobs":1,"detail":"waiting"`},
		{"POST", email + "/purge", "", ""},
		{"PUT", "/v1/rules/r", `{"algorithm":"meter","rate":"1/s"}`, `"what":"created","rule":"r","claimed_by":"ann"`},
		{"POST", "/v1/rules/r/take", `{}`, ""},
		{"POST", "/v1/rules/r/reset", `{"all":true}`, `"what":"reset","rule":"r"`},
		{"DELETE", "/v1/rules/r", "", `"what":"deleted","rule":"r"`},
		{"DELETE", email, "", `"what":"deleted","queue":"email"`},
		{"DELETE", email, "", ""},
	} {
		log.Reset()
		f.do(step.method, step.path, step.body, "Penstock-By", "ann")
		lines := strings.Count(log.String(), "\n")
		if want := min(len(step.want), 1); lines != want || !strings.Contains(log.String(), step.want) {
			t.Errorf("%s %s: %s", step.method, step.path, log.String())
		}
	}
}
