package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
)

// attack does all that the hostile app can think of, as fast as it is answered.
func (x *town) attack(ctx context.Context, running *sync.WaitGroup, token string) *statuses {
	said := &statuses{of: map[string]int{}}
	var number atomic.Int64
	loop := func(round func(c *http.Client)) {
		running.Go(func() {
			var c http.Client
			c.Transport = &http.Transport{}
			defer c.CloseIdleConnections()
			for ctx.Err() == nil {
				round(&c)
			}
		})
	}
	by := func(c *http.Client, token, what, method, path, body string) (text []byte) {
		status, text := x.send(ctx, c, token, method, path, body)
		said.count(what, status, text)
		return text
	}
	payload, header := strings.Repeat("x", 900_000), strings.Repeat("h", 7000)
	large := func() string { return fmt.Sprintf(`{"id":"%d","payload":"%s"}`, number.Add(1), payload) }
	for range 2 {
		loop(func(c *http.Client) { // jobs that die
			by(c, token, "append", "POST", "/v1/queues/evil-dead/jobs", large())
			var v struct{ Jobs []struct{ ID, Lease string } }
			leased := by(c, token, "lease", "POST", "/v1/queues/evil-dead/leases", `{"max":10}`)
			if json.Unmarshal(leased, &v) != nil || len(v.Jobs) == 0 {
				return
			}
			var settled []string
			for _, j := range v.Jobs {
				settled = append(settled, fmt.Sprintf(`{"id":%q,"lease":%q,"outcome":"dead"}`, j.ID, j.Lease))
			}
			by(c, token, "settle", "POST", "/v1/queues/evil-dead/settle", `{"jobs":[`+strings.Join(settled, ",")+`]}`)
		})
	}
	loop(func(c *http.Client) { by(c, token, "defer", "POST", "/v1/queues/evil-later/jobs", large()) })
	for w := range 4 {
		loop(func(c *http.Client) { // entries of the audit log, whose whole header is another each time
			n := number.Add(1)
			by(c, token, "put", "PUT", fmt.Sprint("/v1/queues/evil-put", w), fmt.Sprintf(
				`{"rate":"1/s","deliver":{"http":{"url":"http://a.example/","headers":{"X":"%c%d%s"}}}}`,
				'a'+n%26, n, header))
		})
	}
	for w := range 2 {
		loop(func(*http.Client) { // without a token, each from another address
			n := number.Add(1)
			dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1+byte(w), byte(n>>8), 1+byte(n)%250)}}
			c := http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}}
			proof := ""
			if n%2 == 0 {
				proof = fmt.Sprint("penstock_", n)
			}
			by(&c, proof, "anonymous", "DELETE", fmt.Sprint("/v1/queues/team", n%decentApps, "-q"), "")
		})
	}
	return said
}

// statuses counts answers by what was asked.
type statuses struct {
	mu sync.Mutex
	of map[string]int
}

func (s *statuses) count(what string, status int, text []byte) {
	var p struct{ Reason string }
	if status/100 > 2 && bytes.HasPrefix(text, []byte("{")) {
		_ = json.Unmarshal(text, &p)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[fmt.Sprint(what, " ", status, p.Reason)]++
}

func (s *statuses) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.TrimPrefix(fmt.Sprint(s.of), "map")
}
