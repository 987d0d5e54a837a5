package api_test

import (
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/test/long"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/queue/boltq"
	"github.com/penstock/penstock/queue/redisq"
)

// onSmallStores runs a test on a store of 48 MiB of each engine.
func onSmallStores(t *testing.T, test func(t *testing.T, s *secured)) {
	t.Run("bolt", func(t *testing.T) {
		e, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{MaxBytes: 48 << 20})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		test(t, secureOver(t, e, api.Options{}))
	})
	t.Run("redis", func(t *testing.T) {
		c := redistest.New(t, redistest.Options{MaxMemory: "48mb"}).Client()
		e, err := redisq.OpenClient(t.Context(), c, redisq.Options{Init: true, Partitions: 4, Patience: redistest.Patience})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		test(t, secureOver(t, e, api.Options{}))
	})
}

// appOf makes an app of the names NAME-*, and returns a token that may do all that the app may.
func (s *secured) appOf(name, limits string) (token string) {
	s.t.Helper()
	s.put("/v1/apps/"+name, `{"prefixes":["`+name+`-*"],"limits":`+limits+`}`)
	return s.with(name, auth.Configure, auth.Produce, auth.Consume, auth.View, auth.Operate)
}

// lets settles all jobs of a pull queue that it is given, and returns how many.
func (s *secured) lets(token, name, outcome string) int {
	s.t.Helper()
	a := s.by(token, "POST", "/v1/queues/"+name+"/leases", `{"max":10}`)
	a.want(s.t, 200)
	var v struct{ Jobs []struct{ ID, Lease string } }
	if err := json.Unmarshal([]byte(a.text), &v); err != nil {
		s.t.Fatal(err)
	}
	var settled []string
	for _, j := range v.Jobs {
		settled = append(settled, fmt.Sprintf(`"id":%q,"lease":%q,"outcome":%q`, j.ID, j.Lease, outcome))
	}
	if len(settled) > 0 {
		s.by(token, "POST", "/v1/queues/"+name+"/settle", list(settled...)).want(s.t, 200)
	}
	return len(settled)
}

func largeJob(id string, bytes int) string {
	return `{"id":"` + id + `","payload":"` + strings.Repeat("x", bytes) + `"}`
}

// However an app goes about it, what is kept for it is no more than its bytes.
func TestHostileAppKeepsNoMoreThanItsBytes(t *testing.T) {
	t.Parallel()
	const limit = 2 << 20
	onSmallStores(t, func(t *testing.T, s *secured) {
		evil := s.appOf("evil", `{"bytes":"2MiB","queues":1}`)
		put := func(name, more string) *answer {
			return s.by(evil, "PUT", "/v1/queues/"+name, `{"rate":"unlimited","pull":true`+more+`}`)
		}
		put("evil-a", ``).want(t, 400, "field", "max_bytes")
		put("evil-a", `,"max_bytes":"1MiB","deferred":{"max_bytes":"2MiB"}`).want(t, 400, "field", "max_bytes")
		put("evil-a", `,"max_bytes":"2MiB"`).want(t, 201)
		jobs := long.Of(32, 60) // more than half of the store, if nothing were dropped
		for n := range jobs {
			s.by(evil, "POST", "/v1/queues/evil-a/jobs", largeJob(fmt.Sprint("d", n), 900_000)).want(t, 202)
			if s.lets(evil, "evil-a", "dead") != 1 {
				t.Fatal("no job to let die")
			}
			used, err := s.store.Get(t.Context(), "evil-a")
			if err != nil || used.Bytes+used.DeadBytes > limit {
				t.Fatalf("%d bytes in the queue and %d dead, %v", used.Bytes, used.DeadBytes, err)
			}
		}
		dead := func(want string) {
			t.Helper()
			a := s.by(evil, "GET", "/v1/queues/evil-a", "")
			a.want(t, 200)
			stats, _ := a.body["stats"].(map[string]any)
			if got := fmt.Sprint(stats["dead"], stats["dead_dropped"]); got != want {
				t.Errorf("dead and dropped: %s, want %s", got, want)
			}
		}
		dead(fmt.Sprint("2 ", jobs-2))
		// With what is dead kept, new jobs are refused instead.
		put("evil-a", `,"max_bytes":"2MiB","retention":{"full":"reject"}`).want(t, 200)
		s.by(evil, "POST", "/v1/queues/evil-a/jobs", largeJob("refused", 900_000)).want(t, 429, "reason", "full")
		// The dead of a queue that was deleted count toward the app.
		s.by(evil, "DELETE", "/v1/queues/evil-a?force=true", "").want(t, 204)
		put("evil-b", `,"max_bytes":"1MiB"`).want(t, 400, "field", "max_bytes")
		put("evil-a", `,"max_bytes":"2MiB"`).want(t, 201)
		dead("2 0")
		// A limit that is lowered below use refuses more, and drops nothing.
		s.put("/v1/apps/evil", `{"prefixes":["evil-*"],"limits":{"bytes":"1MiB","queues":1}}`)
		put("evil-a", `,"max_bytes":"3MiB"`).want(t, 400, "field", "max_bytes")
		put("evil-a", `,"max_bytes":"2MiB"`).want(t, 200)
		dead("2 0")
		// A spec is kept too.
		large := `,"max_bytes":"1KiB","deliver":{"http":{"url":"https://a.example/","headers":{"x":"` +
			strings.Repeat("h", 8000) + `"}}}`
		s.by(evil, "DELETE", "/v1/queues/evil-a?force=true", "").want(t, 204)
		s.put("/v1/apps/evil", `{"prefixes":["evil-*"],"hosts":["*"],"limits":{"bytes":"4KiB","queues":1}}`)
		s.by(evil, "PUT", "/v1/queues/evil-c", `{"rate":"1/s"`+large+`}`).want(t, 400, "field", "max_bytes")
		space, err := s.store.Space(t.Context())
		if err != nil || space.Used > 24<<20 {
			t.Errorf("%d bytes of the store are used, %v", space.Used, err)
		}
	})
}

// One of twenty apps takes all that it can get, without a limit of its own. The others go on, job by job.
func TestHostileAppLeavesRoomForNineteenOthers(t *testing.T) {
	t.Parallel()
	const others, rounds = 19, 12
	onSmallStores(t, func(t *testing.T, s *secured) {
		evil := s.appOf("evil", `{"queues":1}`)
		s.by(evil, "PUT", "/v1/queues/evil-a", `{"rate":"unlimited","pull":true,"max_bytes":"1TiB"}`).want(t, 201)
		tokens := make([]string, others)
		for n := range tokens {
			name := fmt.Sprintf("team%02d", n)
			tokens[n] = s.appOf(name, `{"bytes":"1MiB"}`)
			s.by(tokens[n], "PUT", "/v1/queues/"+name+"-q", `{"rate":"unlimited","pull":true,"max_bytes":"1MiB"}`).want(t, 201)
		}
		refused, kept := 0, 0
		for round := range rounds {
			for n := range 8 {
				id := fmt.Sprint("e", round, "-", n)
				switch a := s.by(evil, "POST", "/v1/queues/evil-a/jobs", largeJob(id, 900_000)); a.status {
				case 202:
					kept++
				case 503:
					a.want(t, 503, "reason", "store_full")
					refused++
				default:
					t.Fatalf("%d %s", a.status, a.text)
				}
				if n%2 == 0 {
					s.lets(evil, "evil-a", "dead")
				}
			}
			for n, token := range tokens {
				name := fmt.Sprintf("team%02d-q", n)
				s.by(token, "POST", "/v1/queues/"+name+"/jobs", largeJob(fmt.Sprint("j", round), 4000)).want(t, 202)
				if got := s.lets(token, name, "delivered"); got != 1 {
					t.Fatalf("%s was given %d jobs", name, got)
				}
			}
		}
		if kept < 10 || refused < 10 {
			t.Errorf("the hostile app had %d jobs accepted and %d refused: it did not come to the bound", kept, refused)
		}
		for n := range tokens {
			i, err := s.store.Get(t.Context(), fmt.Sprintf("team%02d-q", n))
			if err != nil || i.Delivered != rounds || i.Refused != 0 {
				t.Errorf("%s: %d delivered, %d refused, %v", i.Spec.Name, i.Delivered, i.Refused, err)
			}
		}
	})
}

// What a former app left is not shown to the next owner of its names, unless the operator gives it away.
func TestHostileNextOwner(t *testing.T) {
	t.Parallel()
	onSmallStores(t, func(t *testing.T, s *secured) {
		former := s.appOf("former", `{}`)
		// The prefix is another app's afterwards.
		s.put("/v1/apps/former", `{"prefixes":["shared-*"]}`)
		const secret = "former secret"
		specs := map[string]any{}
		for _, name := range []string{"shared-a", "shared-b"} {
			put := s.by(former, "PUT", "/v1/queues/"+name, `{"rate":"unlimited","pull":true}`)
			put.want(t, 201)
			specs[name] = int64(put.body["revision"].(float64))
			s.by(former, "POST", "/v1/queues/"+name+"/pause", `{"reason":"`+secret+`"}`).want(t, 200)
			s.by(former, "POST", "/v1/queues/"+name+"/resume", `{}`).want(t, 200)
			s.by(former, "POST", "/v1/queues/"+name+"/jobs", `{"id":"x","payload":"`+secret+`"}`).want(t, 202)
		}
		s.by(former, "PUT", "/v1/queues/shared-c", `{"rate":"1/s","pull":true}`).want(t, 201)
		s.by(former, "PUT", "/v1/rules/shared-d", `{"algorithm":"gap","period":"1h"}`).want(t, 201)
		s.lets(former, "shared-b", "dead")
		s.by(former, "DELETE", "/v1/queues/shared-b", "").want(t, 204)
		s.by(s.operator, "DELETE", "/v1/apps/former", "").want(t, 204)
		next := func(query string) *answer {
			return s.by(s.operator, "PUT", "/v1/apps/next"+query, `{"prefixes":["next","shared-*"]}`)
		}
		next("").want(t, 409, "reason", "not_empty", "field", "prefixes") // its jobs
		s.by(s.operator, "DELETE", "/v1/queues/shared-a?force=true", "").want(t, 204)
		next("").want(t, 409, "reason", "not_empty", "field", "prefixes") // its dead jobs
		s.put("/v1/apps/next", `{"prefixes":["next"]}`)
		for _, left := range []string{"rules/shared-d", "queues/shared-c"} { // no job is left there
			s.by(s.operator, "PUT", "/v1/apps/other", `{"prefixes":["`+path.Base(left)+`"]}`).want(
				t, 409, "reason", "not_empty", "field", "prefixes",
			)
			s.by(s.operator, "DELETE", "/v1/"+left, "").want(t, 204)
			s.put("/v1/apps/other", `{"prefixes":["`+path.Base(left)+`"]}`)
			s.by(s.operator, "DELETE", "/v1/apps/other", "").want(t, 204)
		}
		next("").want(t, 409, "reason", "not_empty", "field", "prefixes") // as a further prefix
		next("?adopt=true").want(t, 200)
		next("").want(t, 200) // it gains nothing
		owner := s.with("next", auth.Admin)
		s.by(owner, "GET", "/v1/queues/shared-b/jobs/x", "").want(t, 200, "state", "dead") // the operator gave it away
		s.by(owner, "PUT", "/v1/queues/shared-a", `{"rate":"unlimited","pull":true}`).want(t, 201)
		for _, path := range []string{"/v1/queues/shared-a/changes", "/v1/queues/shared-b/changes"} {
			if a := s.by(owner, "GET", path, ""); strings.Contains(a.text, secret) {
				t.Errorf("%s: %s", path, a.text)
			}
		}
		s.by(s.operator, "GET", "/v1/queues/shared-a/changes", "").want(t, 200)
		// Nor is a former spec to be had, which may have secrets.
		for _, name := range []string{"shared-a", "shared-b"} {
			for _, body := range []string{`{"dry_run":true}`, `{}`, fmt.Sprintf(`{"revision":%v}`, specs[name])} {
				a := s.by(owner, "POST", "/v1/queues/"+name+"/rollback", body)
				if a.want(t, 404, "reason", "unknown_revision"); strings.Contains(a.text, fmt.Sprint("[", specs[name])) {
					t.Errorf("%s: %s", name, a.text)
				}
			}
		}
		s.by(owner, "PUT", "/v1/queues/shared-a", `{"rate":"2/s","pull":true}`).want(t, 200)
		s.by(owner, "POST", "/v1/queues/shared-a/rollback", "").want(t, 200, "rate", "unlimited")
		s.by(s.operator, "POST", "/v1/queues/shared-b/rollback", "").want(t, 200)
	})
}
