package api_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/survey"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/queue"
)

// What happens to queues is told to all who follow it, in order, and to each what it follows.
func TestEvents(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture, e queue.Engine) {
		s, read := surveyed(t, f, e)
		f.do("PUT", email, `{"rate":"10/s","capacity":2}`).want(t, 201)
		f.do("PUT", "/v1/queues/other", `{"rate":"10/s"}`).want(t, 201)
		read()
		all, one := follow(f, "/v1/events"), follow(f, email+"/events")
		some := follow(f, "/v1/events?queues=email,none")
		if h := all.answer.header; h.Get("Content-Type") != "text/event-stream" || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%v", h)
		}
		first := all.next("reset")
		if first.names() != "email other" || first.data["as_of"] == nil || first.id != s.Instance()+"-0" {
			t.Errorf("%+v", first)
		}
		for _, st := range []*eventStream{one, some} {
			if first := st.next("reset"); first.names() != "email" {
				t.Errorf("%+v", first)
			}
		}

		f.do("POST", email+"/pause", `{"reason":"why not"}`).want(t, 200)
		f.do("POST", "/v1/queues/other/pause", `{}`).want(t, 200)
		read()
		for _, st := range []*eventStream{one, some} {
			told := st.next("paused")
			row, _ := told.data["row"].(map[string]any)
			status, _ := row["status"].(map[string]any)
			if told.data["queue"] != "email" || status["code"] != "paused" || status["reason"] != "why not" {
				t.Errorf("%+v", told)
			}
		}
		all.next("paused")
		all.next("paused")

		// Figures are told to those who name the queue.
		for _, id := range []string{"a", "b"} {
			f.do("POST", jobs, `{"payload":1,"id":"`+id+`"}`).want(t, 202)
		}
		read()
		for _, st := range []*eventStream{all, one, some} {
			if full := st.next("full"); full.data["queue"] != "email" {
				t.Errorf("%+v", full)
			}
		}
		f.do("POST", jobs+"/a/cancel", "").want(t, 200)
		read()
		one.next("room")
		f.do("PUT", email, `{"rate":"10/s","capacity":5}`).want(t, 200)
		read()
		one.next("changed")
		f.do("POST", jobs, `{"payload":1,"id":"c"}`).want(t, 202)
		read()
		info := one.next("info")
		for info.id == "" && info.data["queues"].([]any)[0].(map[string]any)["size"] != 2.0 {
			info = one.next("info")
		}

		f.do("POST", email+"/resume", "").want(t, 200)
		read()
		one.next("resumed")
		f.do("DELETE", email+"?force=true", "").want(t, 204)
		read()
		if gone := one.next("deleted"); gone.data["row"] != nil || gone.data["queue"] != "email" {
			t.Errorf("%+v", gone)
		}
		f.do("PUT", email, `{"rate":"10/s"}`).want(t, 201)
		read()
		one.next("created")

		f.do("GET", "/v1/queues/none/events", "").want(t, 404, "reason", "unknown_queue")
		f.do("GET", "/v1/events?queues=", "").want(t, 400, "field", "queues")
		f.do("GET", "/v1/events?after=a&after=b", "").want(t, 400, "reason", "duplicate_field", "field", "after")
		f.do("GET", "/v1/events?after="+strings.Repeat("a", 65), "").want(t, 400, "reason", "invalid_field", "field", "after")
	})
}

// Who comes back is told what he missed, or how everything is if nobody knows that.
func TestEventsResume(t *testing.T) {
	f := &fixture{t: t}
	e := newEngine()
	s := survey.New(e, survey.Options{MaxEvents: 3})
	f.serveOver(e, api.Options{Survey: s})
	put := func(name string, revisions int) {
		t.Helper()
		for n := range revisions {
			f.do("PUT", "/v1/queues/"+name, fmt.Sprintf(`{"rate":"%d/s"}`, n+1))
			if err := s.Read(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	put("a", 1)
	st := follow(f, "/v1/events")
	begun := st.next("reset").id
	put("b", 3)
	first := st.next("created")
	last := st.next("changed")
	st.close()
	for _, header := range []bool{true, false} {
		path, with := "/v1/events?after="+first.id, []string{}
		if header { // which stands above the address: a browser keeps that
			path, with = "/v1/events?after="+begun, []string{"Last-Event-ID", first.id}
		}
		st := follow(f, path, with...)
		if again := st.next("changed"); again.id != last.id || fmt.Sprint(again.data) != fmt.Sprint(last.data) {
			t.Errorf("%+v, want %+v", again, last)
		}
		st.next("changed")
	}
	put("b", 2)
	for _, id := range []string{
		begun, first.id, s.Instance() + "-99", "other-1", "x", "-1", s.Instance() + "--1", s.Instance() + "-x",
	} {
		st := follow(f, "/v1/events", "Last-Event-ID", id)
		if all := st.next("reset"); all.names() != "a b" {
			t.Errorf("after %s: %+v", id, all)
		}
	}
}

// A change that was made here is told at once, without waiting for the next reading.
func TestEventsTellAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture, e queue.Engine) {
		s := survey.New(e, survey.Options{})
		f.serveOver(e, api.Options{Survey: s})
		run(t, s.Run)
		f.do("PUT", email, `{"rate":"10/s"}`).want(t, 201)
		st := follow(f, email+"/events")
		if st.next("reset").names() == "" { // it was read before the queue was made
			st.next("created")
		}
		begun := time.Now()
		f.do("POST", email+"/pause", `{}`).want(t, 200)
		st.next("paused")
		t.Logf("after %v", time.Since(begun))
		st.close()
		await.Until(t, "nobody watches", func() bool { return s.Watching() == 0 })
	})
}

func TestEventsOfForeignQueues(t *testing.T) {
	s := secure(t, api.Options{})
	acme := s.token("acme", auth.Grant{Role: auth.View})
	bearer := "Bearer " + acme
	st := follow(s.fixture, "/v1/events", "Authorization", bearer)
	if all := st.next("reset"); all.names() != acmeQueue+" "+acmeChild {
		t.Errorf("%+v", all)
	}
	st = follow(s.fixture, "/v1/events?queues=ses,"+betaQueue+","+acmeChild, "Authorization", bearer)
	if all := st.next("reset"); all.names() != acmeChild {
		t.Errorf("%+v", all)
	}
	s.by(s.operator, "POST", "/v1/queues/"+betaQueue+"/pause", "{}").want(t, 200)
	s.by(s.operator, "POST", "/v1/queues/ses/pause", `{"reason":"secret"}`).want(t, 200)
	if err := s.survey.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	f := st.next("state")
	row, _ := f.data["row"].(map[string]any)
	if status, _ := row["status"].(map[string]any); status["code"] != "parent_paused" || status["reason"] != nil {
		t.Errorf("%+v", f)
	}
}

// Who loses the role is told so, and nothing more.
func TestEventsEndWithTheRole(t *testing.T) {
	s := secure(t, api.Options{})
	made := s.by(s.operator, "POST", "/v1/tokens", `{"app":"acme","grants":[{"role":"view"}]}`)
	made.want(t, 201)
	st := follow(s.fixture, "/v1/queues/"+acmeQueue+"/events", "Authorization", "Bearer "+made.body["secret"].(string))
	st.next("reset")
	begun := time.Now()
	s.by(s.operator, "DELETE", made.header.Get("Location"), "").want(t, 204)
	if end := st.next("end"); end.data["reason"] != "unauthenticated" {
		t.Errorf("%+v", end)
	}
	if _, more := <-st.frames; more || time.Since(begun) > 5*time.Second {
		t.Errorf("after %v there is more: %v", time.Since(begun), more)
	}
}

func TestEventsEndWithTheServer(t *testing.T) {
	stopping, stop := context.WithCancel(context.Background())
	f := serve(t, api.Options{Stopping: stopping})
	st := follow(f, "/v1/events")
	st.next("reset")
	stop()
	if end := st.next("end"); end.data["reason"] != "stopping" {
		t.Errorf("%+v", end)
	}
}

// Streams of events count as others do.
func TestEventsAreBounded(t *testing.T) {
	f := serve(t, api.Options{MaxStreams: 1})
	st := follow(f, "/v1/events")
	st.next("reset")
	follow(f, "/v1/events").answer.want(t, 503)
	st.close()
	await.Until(t, "there is a place", func() bool { return follow(f, "/v1/events").answer.status == 200 })

	s := secure(t, api.Options{})
	s.put("/v1/apps/acme", `{"prefixes":["acme-*","ses.acme"],"limits":{"streams":1}}`)
	bearer := "Bearer " + s.token("acme", auth.Grant{Role: auth.View})
	follow(s.fixture, "/v1/events", "Authorization", bearer).next("reset")
	follow(s.fixture, "/v1/events", "Authorization", bearer).answer.want(t, 429, "reason", "app_limit")
}

// A client that does not read is dropped, and delays nobody.
func TestEventsOfSlowReader(t *testing.T) {
	e := newEngine()
	for n := range 3000 {
		name := fmt.Sprintf("queue-%04d", n)
		e.queues[name] = &fifo{info: queue.Info{Spec: queue.Spec{Name: name, Capacity: 10}, Revision: 1}}
	}
	s := survey.New(e, survey.Options{})
	f := &fixture{t: t}
	srv := httptest.NewUnstartedServer(held(t, api.New(e, api.Options{Survey: s, AnswerTimeout: 200 * time.Millisecond})))
	srv.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context { // soon full
		if err := c.(*net.TCPConn).SetWriteBuffer(16 << 10); err != nil {
			t.Error(err)
		}
		return ctx
	}
	srv.Start()
	t.Cleanup(srv.Close)
	f.url, f.client, f.close = srv.URL, srv.Client(), srv.Close
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.(*net.TCPConn).SetReadBuffer(1 << 10); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprint(conn, "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReaderSize(conn, 16).ReadString('\n'); err != nil { // and no more
		t.Fatal(err)
	}
	st := follow(f, "/v1/queues/queue-0007/events")
	st.next("reset")
	change := func() {
		t.Helper()
		e.mu.Lock()
		for _, q := range e.queues {
			q.info.Revision++
		}
		e.mu.Unlock()
		if err := s.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	await.Until(t, "it was dropped", func() bool {
		change()
		st.next("changed")
		return s.Dropped() == 1
	})
	st.close()
	await.Until(t, "nobody watches", func() bool { return s.Watching() == 0 })
}
