package api_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// finds searches to the end and compares the jobs, as QUEUE/ID.
func finds(t *testing.T, do func(path string) *answer, query string, want ...string) (pages int) {
	t.Helper()
	var got []string
	for after := ""; pages < 1000; pages++ {
		a := do("/v1/jobs?" + query + "&after=" + url.QueryEscape(after))
		a.want(t, 200)
		list, _ := a.body["jobs"].([]any)
		for _, j := range list {
			job, _ := j.(map[string]any)
			got = append(got, fmt.Sprint(job["queue"], "/", job["id"]))
		}
		if after, _ = a.body["next"].(string); after == "" {
			break
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("?%s found %v, want %v", query, got, want)
	}
	return pages + 1
}

func TestFindJobs(t *testing.T) {
	f, e := keeping(t)
	bury(t, e, "d", "550 no such user", 3)
	if _, err := e.Put(t.Context(), queue.Spec{Name: "sms", Rate: leaky.Unlimited}, queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Append(t.Context(), []queue.Job{
		{Queue: "sms", ID: "d1", Lane: "a.example", Payload: []byte("1")},
		{Queue: "sms", ID: "x", Lane: "a.example", Payload: []byte("1")},
	}); err != nil {
		t.Fatal(err)
	}
	do := func(path string) *answer { return f.do("GET", path, "") }
	finds(t, do, "id=d1", "email/d1", "sms/d1")
	finds(t, do, "id=d")
	finds(t, do, "prefix=d", "email/d0", "email/d1", "email/d2", "sms/d1")
	if pages := finds(t, do, "prefix=d&limit=1", "email/d0", "email/d1", "email/d2", "sms/d1"); pages < 4 {
		t.Errorf("%d pages of at most one job", pages)
	}
	finds(t, do, "lane=a.example", "sms/d1", "sms/x")
	finds(t, do, "lane=a.example&prefix=d", "sms/d1")
	do("/v1/jobs?id=d1").want(t, 200)
	for query, field := range map[string]string{
		"": "id", "id=a&prefix=a": "prefix", "prefix=a%20b": "prefix", "id=a%20b": "id", "id=a&limit=501": "limit",
		"id=a&after=x": "after", "id=a&after=7.x": "after", "id=a&after=0.x": "after", "id=a&id=b": "id",
	} {
		do("/v1/jobs?"+query).want(t, 400, "field", field)
	}
}

// A caller finds only jobs of the queues that they may see, and payloads are never shown.
func TestFindOnlyOwnJobs(t *testing.T) {
	s := secure(t, api.Options{})
	s.by(s.operator, "POST", "/v1/queues/"+betaChild+"/jobs", `{"id":"j1","payload":"secret text"}`).want(t, 202)
	for _, c := range []struct {
		token string
		want  []string
	}{
		{s.with("acme", auth.View), []string{acmeQueue + "/j1"}},
		{s.with("beta", auth.View), []string{betaQueue + "/j1", betaChild + "/j1"}},
		{s.operator, []string{acmeQueue + "/j1", betaQueue + "/j1", betaChild + "/j1"}},
		{s.token("", auth.Grant{Role: auth.View, Prefix: betaQueue}), []string{betaQueue + "/j1"}},
	} {
		for _, query := range []string{"id=j1", "prefix=j", "prefix=j&limit=1"} {
			finds(t, func(path string) *answer {
				a := s.by(c.token, "GET", path, "")
				if strings.Contains(a.text, "secret text") {
					t.Errorf("%s shows a payload", path)
				}
				return a
			}, query, c.want...)
		}
	}
	s.by(s.with("acme", auth.Produce), "GET", "/v1/jobs?id=j1", "").want(t, 403)
}

func TestListEndedJobs(t *testing.T) {
	f, e := keeping(t)
	for _, id := range []string{"a", "b"} {
		if _, err := e.Append(t.Context(), []queue.Job{{Queue: "email", ID: id, Payload: []byte("1")}}); err != nil {
			t.Fatal(err)
		}
		f.do("POST", jobs+"/"+id+"/cancel", "").want(t, 200)
	}
	a := f.do("GET", queues+"/email/jobs?state=cancelled", "")
	list, _ := a.body["jobs"].([]any)
	if len(list) != 2 || list[0].(map[string]any)["id"] != "b" || list[0].(map[string]any)["ended_at"] == nil {
		t.Errorf("listed %s", a.text)
	}
	f.do("GET", queues+"/email/jobs?state=deferred", "").want(t, 400, "field", "state")
	f.do("GET", queues+"/email/jobs?state=delivered&lane=a", "").want(t, 400, "field", "lane")
}
