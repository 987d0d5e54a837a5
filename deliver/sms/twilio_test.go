package sms_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/smssim"
	"github.com/penstock/penstock/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "planted-token-4711"

// open is a gate that is not waited in.
type open struct{}

func (open) Wait(context.Context) error { return nil }
func (open) Closes() time.Time          { return time.Now().Add(time.Hour) }

// rig is a router, and a provider that it sends to.
type rig struct {
	t      *testing.T
	sim    *smssim.Simulator
	url    string
	router *deliver.Router
	log    bytes.Buffer
}

func newRig(t *testing.T, o smssim.Options) *rig {
	t.Helper()
	t.Setenv("PENSTOCK_SECRET_TOKEN", token)
	o.Token = token
	r := &rig{t: t, sim: smssim.New(o)}
	r.serve(r.sim)
	return r
}

func (r *rig) serve(h http.Handler) {
	r.t.Helper()
	server := httptest.NewServer(h)
	r.t.Cleanup(server.Close)
	r.url = server.URL
	r.router = routed(r.t, deliver.Options{Logger: slog.New(slog.NewTextHandler(&r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
}

// routed returns a router that may reach this machine.
func routed(t *testing.T, o deliver.Options) *deliver.Router {
	t.Helper()
	guard, err := egress.New(egress.Loopback...)
	if err != nil {
		t.Fatal(err)
	}
	o.Egress = guard
	router := deliver.New(o)
	t.Cleanup(func() { _ = router.Close() })
	return router
}

// job is a text to a number, by the target with more fields.
func (r *rig) job(to, text, more string) *drain.Job {
	payload, err := json.Marshal(map[string]string{"to": to, "text": text})
	if err != nil {
		r.t.Fatal(err)
	}
	j := &drain.Job{Reservation: queue.Reservation{Job: queue.Job{Queue: "sms", ID: queue.NewID(), Payload: payload, ContentType: "application/json"}, Attempt: 1, Revision: 1}}
	j.Spec.Deliver = json.RawMessage(target(r.url, more))
	return j
}

func target(url, more string) string {
	return fmt.Sprintf(`{"sms": {"provider": "twilio", "url": %q, "account": %q, "auth_token": "${secret:TOKEN}", "from": "+15005550006"%s}}`, url, smssim.DefaultAccount, more)
}

const quick = `, "grace": "20ms"`

func (r *rig) send(to, text, more string) error {
	r.t.Helper()
	return r.router.Handle(r.t.Context(), r.job(to, text, more), open{})
}

func (r *rig) texts() (bodies []string) {
	for _, t := range r.sim.Texts() {
		bodies = append(bodies, t.Body)
	}
	return bodies
}

func TestTwilioOutcomes(t *testing.T) {
	r := newRig(t, smssim.Options{RetryAfter: true})
	for _, c := range []struct {
		to      string
		verdict queue.Verdict
		trouble bool
		reason  string
	}{
		{"+4915112345678", queue.Deliver, false, ""},
		{"+15005550001", queue.Bury, false, "21211 The 'To' number is not a valid phone number."},
		{"+15005550002", queue.Bury, false, "21612"},
		{"+15005550003", queue.Bury, false, "21408"},
		{"+15005550004", queue.Bury, false, "21610 Attempt to send to unsubscribed recipient"},
		{"+15005550009", queue.Bury, false, "21614"},
		{"+15005550020", queue.Deliver, false, ""}, // the answer is lost, and the provider has it
		{"+15005550021", queue.Hold, true, "the provider did not list it"},
		{"+15005550022", queue.Hold, true, "502"},
		{"+15005550023", queue.Fail, true, "503"},
		{"+15005550024", queue.Hold, true, "20500"}, // no refusal: it says not whether the text was taken
		{"+15005550025", queue.Throttle, false, "20429"},
		{"+15005550026", queue.Throttle, false, "30001 Queue overflow"},
	} {
		err := r.send(c.to, "hello", quick)
		said := drain.What(err)
		if said.Verdict != c.verdict || said.Trouble != c.trouble || !strings.Contains(fmt.Sprint(err), c.reason) {
			t.Errorf("%s: %v %+v, want %v %v %q", c.to, err, said, c.verdict, c.trouble, c.reason)
		}
	}
	if got := r.texts(); len(got) != 2 {
		t.Errorf("%d texts were taken", len(got))
	}
	if got := r.sim.Texts()[0]; got.To != "+4915112345678" || got.From != "+15005550006" || got.Body != "hello" || got.Service != "" {
		t.Errorf("%+v", got)
	}
}

func TestTwilioSenders(t *testing.T) {
	r := newRig(t, smssim.Options{})
	for _, c := range []struct {
		more, from string
		verdict    queue.Verdict
	}{
		{`, "from": "+15005550007"`, "", queue.Down}, // the queue's: no text can be sent
		{"", "+15005550007", queue.Bury},             // the job's own
		{`, "from": "+15005550008"`, "", queue.Throttle},
	} {
		job := r.job("+4915112345678", "hello", strings.Replace(quick, "}", "", 1))
		job.Spec.Deliver = json.RawMessage(strings.Replace(string(job.Spec.Deliver), `, "from": "+15005550006"`, c.more, 1))
		if c.from != "" {
			job.Payload = []byte(strings.Replace(string(job.Payload), "{", `{"from": "`+c.from+`",`, 1))
		}
		if err := r.router.Handle(t.Context(), job, open{}); drain.What(err).Verdict != c.verdict {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// What is wrong with the account costs no job an attempt, and says what to mend.
func TestTwilioDown(t *testing.T) {
	r := newRig(t, smssim.Options{})
	unlistening, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = unlistening.Close()
	for name, c := range map[string]struct{ old, new, reason string }{
		"another token":   {"${secret:TOKEN}", "wrong-token", "auth_token"},
		"another account": {smssim.DefaultAccount, "ACother", "check account"},
		"no secret":       {"${secret:TOKEN}", "${secret:ABSENT}", "ABSENT"},
		"another site":    {r.url, r.url + "/prefix", "check url"},
		"nobody listens":  {r.url, "http://" + unlistening.Addr().String(), "refused"},
	} {
		job := r.job("+4915112345678", "hello", "")
		job.Spec.Deliver = json.RawMessage(strings.Replace(string(job.Spec.Deliver), c.old, c.new, 1))
		err := r.router.Handle(t.Context(), job, open{})
		if said := drain.What(err); said.Verdict != queue.Down || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: %v, %+v", name, err, said)
		}
	}
	if len(r.sim.Texts()) != 0 {
		t.Error("a text was taken")
	}
}

func TestTwilioThrottled(t *testing.T) {
	for name, c := range map[string]struct {
		header string
		least  time.Duration
		most   time.Duration
	}{
		"seconds":     {"7", 6 * time.Second, 7 * time.Second},
		"a date":      {time.Now().Add(time.Minute).UTC().Format(http.TimeFormat), 57 * time.Second, 61 * time.Second},
		"a past date": {"Sun, 06 Nov 1994 08:49:37 GMT", -time.Second, 0},
		"nothing":     {"", 0, time.Second},
		"nonsense":    {"soon", 0, time.Second},
		"too long":    {"99999999999", queue.MaxHold - time.Minute, queue.MaxHold},
	} {
		r := newRig(t, smssim.Options{})
		r.serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if c.header != "" {
				w.Header().Set("Retry-After", c.header)
			}
			w.WriteHeader(http.StatusTooManyRequests)
		}))
		said := drain.What(r.send("+4915112345678", "hello", ""))
		if wait := time.Until(said.Until); said.Verdict != queue.Throttle || said.LaneOnly || wait < c.least || wait > c.most {
			t.Errorf("%s: %+v, in %v", name, said, wait)
		}
	}
}

// What is no answer of the provider's is not taken for one.
func TestTwilioStrangers(t *testing.T) {
	for name, c := range map[string]struct {
		status  int
		body    string
		verdict queue.Verdict
	}{
		"a website":             {200, "<html>welcome</html>", queue.Hold},
		"no sid":                {201, `{"status": "queued"}`, queue.Hold},
		"a text that failed":    {201, `{"sid": "SM1", "status": "failed", "error_code": 30001, "error_message": "Queue overflow"}`, queue.Throttle},
		"a text that is known":  {201, `{"sid": "SM1", "status": "accepted", "error_code": null}`, queue.Deliver},
		"a redirect":            {302, "", queue.Down},
		"a proxy":               {407, "", queue.Down},
		"another API's refusal": {422, `{"error": "no"}`, queue.Bury},
		"too large":             {413, "", queue.Bury},
		"a firewall":            {403, "blocked", queue.Fail},
		"a gateway":             {504, "", queue.Hold},
		"errors in words":       {400, `{"code": "E1", "message": "no"}`, queue.Bury},
	} {
		r := newRig(t, smssim.Options{})
		r.serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		}))
		if err := r.send("+4915112345678", "hello", quick); drain.What(err).Verdict != c.verdict {
			t.Errorf("%s: %v, want %v", name, err, c.verdict)
		}
	}
}

// A text whose answer was lost is looked for, and only one that is this job's is found.
func TestTwilioLostAnswers(t *testing.T) {
	const to = "+4915112345678"
	faults := map[int]smssim.Fault{}
	var mu sync.Mutex
	lose := func(n int, f smssim.Fault) { mu.Lock(); faults[n] = f; mu.Unlock() }
	r := newRig(t, smssim.Options{Listed: 200 * time.Millisecond, Fault: func(n int) smssim.Fault { mu.Lock(); defer mu.Unlock(); return faults[n] }})

	lose(1, smssim.LoseAnswer)
	if err := r.send(to, "late in the list", `, "grace": "30s"`); err != nil {
		t.Errorf("taken: %v", err)
	}
	if _, _, asked := r.sim.Counts(); asked == 0 {
		t.Error("the provider was not asked")
	}
	// The same text to the same number, sent just before by another job, is not this one's.
	lose(3, smssim.LoseRequest)
	if err := r.send(to, "twin", ""); err != nil {
		t.Fatal(err)
	}
	if err := r.send(to, "twin", `, "grace": "300ms"`); drain.What(err).Verdict != queue.Hold {
		t.Errorf("lost beside its twin: %v", err)
	}
	// Nor is another text, or another number's.
	lose(6, smssim.LoseRequest)
	_, _ = r.send(to, "one", ""), r.send("+4915112345679", "two", "")
	if err := r.send(to, "two", `, "grace": "300ms"`); drain.What(err).Verdict != queue.Hold {
		t.Errorf("lost beside others: %v", err)
	}
	// It counts as not sent only if the setting says so.
	lose(7, smssim.LoseRequest)
	err := r.send(to, "again", `, "grace": "300ms", "not_listed": "retry"`)
	if said := drain.What(err); said.Verdict != queue.Fail || !said.Trouble || !strings.Contains(err.Error(), "counts as not sent") {
		t.Errorf("not listed: %v %+v", err, said)
	}
	if got := fmt.Sprint(r.texts()); got != "[late in the list twin one two]" {
		t.Error(got)
	}
}

// A text of the list is not taken for a job's while another job with the same text waits for its answer: it may be that one's.
func TestTwilioTwinUnderWay(t *testing.T) {
	const to = "+4915112345678"
	first, answer := make(chan struct{}), make(chan struct{})
	var posts atomic.Int32
	r := newRig(t, smssim.Options{})
	r.serve(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch {
		case q.Method == http.MethodGet:
			_, _ = fmt.Fprintf(w, `{"messages": [{"sid": "SM1", "to": %q, "from": "+15005550006", "body": "twin", "direction": "outbound-api", "date_created": %q}]}`,
				to, time.Now().UTC().Format(time.RFC1123Z))
		case posts.Add(1) == 1:
			close(first)
			<-answer
			_, _ = io.WriteString(w, `{"sid": "SM1", "status": "queued"}`)
		default:
			panic(http.ErrAbortHandler)
		}
	}))
	done := make(chan error, 1)
	go func() { done <- r.router.Handle(t.Context(), r.job(to, "twin", ""), open{}) }()
	<-first
	err := r.send(to, "twin", quick+`, "not_listed": "retry"`)
	close(answer)
	if said := drain.What(err); said.Verdict != queue.Hold || !strings.Contains(fmt.Sprint(err), "another job") {
		t.Errorf("beside one under way: %v %+v", err, said)
	}
	if err := <-done; err != nil {
		t.Errorf("the one under way: %v", err)
	}
	if err := r.send(to, "twin", quick); !strings.Contains(fmt.Sprint(err), "did not list it") {
		t.Errorf("behind it: %v", err)
	}
}

// Without a list that can be read nothing is known, whatever the setting says of texts that are not listed.
func TestTwilioCannotBeAsked(t *testing.T) {
	date := func(after time.Duration) string { return time.Now().Add(after).UTC().Format(time.RFC1123Z) }
	many := func(n int, at string) string {
		one := fmt.Sprintf(`{"sid": "SM1", "to": "+4915112345678", "body": "another", "date_created": %q}`, at)
		return strings.TrimSuffix(strings.Repeat(one+",", n), ",")
	}
	for name, c := range map[string]struct {
		status  int
		list    string
		verdict queue.Verdict
	}{
		"unavailable":       {503, "", queue.Hold},
		"no list":           {200, `{}`, queue.Hold},
		"cut off":           {200, `{"messages": [`, queue.Hold},
		"endless":           {200, `{"messages": [` + strings.Repeat(" ", 1<<20) + `]}`, queue.Hold},
		"no dates":          {200, `{"messages": [{"sid": "SM1"}]}`, queue.Hold},
		"more than a page":  {200, `{"messages": [` + many(50, date(0)) + `], "next_page_uri": "/more"}`, queue.Hold},
		"a page, and older": {200, `{"messages": [` + many(50, date(-time.Hour)) + `], "next_page_uri": "/more"}`, queue.Fail},
		"an empty list":     {200, `{"messages": []}`, queue.Fail},
	} {
		r := newRig(t, smssim.Options{})
		r.serve(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if q.Method == http.MethodPost {
				panic(http.ErrAbortHandler)
			}
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.list))
		}))
		if err := r.send("+4915112345678", "hello", quick+`, "not_listed": "retry"`); drain.What(err).Verdict != c.verdict {
			t.Errorf("%s: %v, want %v", name, err, c.verdict)
		}
	}
}

// A provider that echoes what it was sent does not get the credentials into what is told.
func TestTwilioSecrets(t *testing.T) {
	r := newRig(t, smssim.Options{})
	for _, status := range []int{200, 400, 401, 403, 422, 429, 500, 503} {
		r.serve(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			w.WriteHeader(status)
			user, password, _ := q.BasicAuth()
			echo := fmt.Sprintf("%s %s:%s %s", q.Header.Get("Authorization"), user, password, q.FormValue("StatusCallback"))
			if status == 400 {
				echo = fmt.Sprintf(`{"code": 21609, "message": %q}`, echo)
			}
			_, _ = w.Write([]byte(echo))
		}))
		job := r.job("+4915112345678", "hello", quick+`, "status_callback": "https://me.example.com/?key=${secret:TOKEN}"`)
		err := r.router.Handle(t.Context(), job, open{})
		if err == nil || strings.Contains(err.Error(), token) || strings.Contains(r.log.String(), token) || strings.Contains(err.Error(), "QUNz") {
			t.Errorf("%d: %v\n%s", status, err, r.log.String())
		}
	}
}

// A job that was taken as it is, and can never be sent, is dead.
func TestTwilioBadJob(t *testing.T) {
	r := newRig(t, smssim.Options{})
	if err := r.send("12345", "hello", ""); drain.What(err).Verdict != queue.Bury || !strings.Contains(err.Error(), "payload.to") {
		t.Error(err)
	}
	if requests, _, _ := r.sim.Counts(); requests != 0 {
		t.Error("it was sent")
	}
}

// Without leave the inside of the network is not reached, and no job pays for it.
func TestTwilioInside(t *testing.T) {
	r := newRig(t, smssim.Options{})
	router := deliver.New(deliver.Options{})
	defer func() { _ = router.Close() }()
	err := router.Handle(t.Context(), r.job("+4915112345678", "hello", ""), open{})
	if said := drain.What(err); said.Verdict != queue.Down || !strings.Contains(err.Error(), egress.Flag) {
		t.Errorf("%v, %+v", err, said)
	}
}

// A late gate lets nothing out; one that takes a while does not use up the timeout.
func TestTwilioGate(t *testing.T) {
	r := newRig(t, smssim.Options{})
	if err := r.router.Handle(t.Context(), r.job("+4915112345678", "hello", ""), late{}); drain.What(err).Verdict != queue.Fail || !strings.Contains(err.Error(), drain.ErrLate.Error()) {
		t.Error(err)
	}
	if requests, _, _ := r.sim.Counts(); requests != 0 {
		t.Error("it was sent")
	}
}

type late struct{ open }

func (late) Wait(context.Context) error { return drain.ErrLate }

// A provider that does not answer, or never ends, has its timeout and no more.
func TestTwilioTimeout(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"silent": func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() },
		"endless": func(w http.ResponseWriter, q *http.Request) {
			for q.Context().Err() == nil {
				_, _ = w.Write(bytes.Repeat([]byte(" "), 64<<10))
			}
		},
		"slow": func(w http.ResponseWriter, q *http.Request) {
			for q.Context().Err() == nil {
				_, _ = w.Write([]byte(" "))
				_ = http.NewResponseController(w).Flush()
				select {
				case <-time.After(10 * time.Millisecond):
				case <-q.Context().Done():
				}
			}
		},
	} {
		r := newRig(t, smssim.Options{})
		r.serve(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			_ = q.ParseForm() // or nobody notices when the client goes
			h(w, q)
		}))
		start := time.Now()
		err := r.send("+4915112345678", "hello", `, "timeout": "200ms", "grace": "0s"`)
		if took := time.Since(start); drain.What(err).Verdict != queue.Hold || took > 10*time.Second {
			t.Errorf("%s: %v after %v", name, err, took)
		}
	}
}
