package console_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"time"
)

// world fills a server with queues in many states, and keeps sending jobs until the test ends.
func (r *rig) world() {
	r.t.Helper()
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch {
		case strings.HasPrefix(q.URL.Path, "/busy"):
			w.Header().Set("Retry-After", "900")
			w.WriteHeader(http.StatusTooManyRequests)
		case strings.HasPrefix(q.URL.Path, "/bad"):
			http.Error(w, "no such template", http.StatusBadRequest)
		}
	}))
	r.t.Cleanup(receiver.Close)
	to := func(path string) fields { return fields{"http": fields{"url": receiver.URL + path}} }
	down := fields{"http": fields{"url": "http://127.0.0.1:1/"}}
	r.queue("email", fields{"pull": false, "rate": "14/s", "capacity": 10_000, "deliver": to("/")})
	r.queue("email.otp", fields{"pull": false, "rate": "10/s", "capacity": 2_000, "deliver": to("/")})
	r.queue("email.newsletter", fields{"pull": false, "rate": "12/s", "capacity": 50_000, "deliver": to("/")})
	r.queue("sms", fields{"pull": false, "rate": "5/s", "capacity": 1_000, "deliver": to("/busy")})
	r.queue("webhooks", fields{
		"pull": false, "rate": "50/s", "capacity": 5_000, "deliver": down,
		"circuit": fields{"failures": 2, "min_probe": "30s", "max_probe": "5m"},
	})
	r.queue("crm-sync", fields{"rate": "100/h", "capacity": 400})
	r.queue("exports", fields{"rate": "1/m", "capacity": 24})
	r.queue("invoices", fields{"pull": false, "rate": "2/s", "capacity": 5_000, "deliver": to("/")})
	r.queue("reports", fields{
		"pull": false, "rate": "1/s", "capacity": 500, "deliver": to("/bad"),
		"retry": fields{"max_attempts": 1},
	})
	r.queue("push", fields{"pull": false, "rate": "200/s", "capacity": 20_000, "deliver": to("/")})
	r.queue("campaign", fields{
		"pull": false, "rate": "20/s", "capacity": 9_000, "deliver": to("/"),
		"limits": []fields{{"quota": "500/h"}, {"quota": "20000/mo", "timezone": "Europe/Berlin"}},
		"lanes":  fields{"rate": "2/s"},
	})
	r.must("PUT", "/v1/apps/shop", fields{"prefixes": []string{"shop*"}})
	r.must("PUT", "/v1/subjects/cert:ci", fields{"grants": []fields{{"role": "produce"}}})
	r.must("PUT", "/v1/rules/signup", fields{"algorithm": "sliding_log", "limit": 5, "period": "1h"})
	r.must("POST", "/v1/queues/email/jobs", fields{
		"id": "welcome-17", "payload": fields{"to": "a@example.com"}, "not_before": time.Now().Add(time.Hour),
	})
	r.jobs("email", 90, nil)
	r.jobs("email", 20, fields{"batch": "spring", "lane": "a.example"})
	r.jobs("email.newsletter", 60, nil)
	r.must("POST", "/v1/queues/email.newsletter/pause", fields{
		"reason": "wrong link in the footer", "until": time.Now().Add(42 * time.Minute),
	})
	r.jobs("sms", 160, nil)
	r.jobs("webhooks", 40, nil)
	r.jobs("crm-sync", 72, nil)
	r.jobs("exports", 30, nil)
	for lane, n := range map[string]int{"gmail.com": 300, "yahoo.com": 120, "example.com": 40, "": 10} {
		r.jobs("campaign", n, map[bool]fields{true: {"lane": lane}}[lane != ""])
	}
	r.must("POST", "/v1/queues/webhooks/jobs", fields{"id": "hook-1", "payload": fields{"n": 1}})
	r.jobs("invoices", 12, fields{"not_before": time.Now().Add(3 * time.Hour)})
	r.jobs("reports", 8, fields{"batch": "monthly"})
	go func() {
		for r.t.Context().Err() == nil {
			time.Sleep(100 * time.Millisecond)
			for queue, n := range map[string]int{"email": 1, "email.otp": 1, "push": 3, "exports": 1} {
				for range n {
					r.feed(queue)
				}
			}
		}
	}()
}

// feed appends a job if the server is up.
func (r *rig) feed(queue string) {
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost,
		"http://"+r.addr+"/v1/queues/"+queue+"/jobs", strings.NewReader(`{"payload":{"to":"a@example.com"}}`))
	if err != nil {
		return
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+r.secret)
	if resp, err := http.DefaultClient.Do(req); err == nil {
		resp.Body.Close()
	}
}
