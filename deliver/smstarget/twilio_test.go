package smstarget_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/cli/sink/smssim"
	"github.com/penstock/penstock/queue"
)

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
	if got := r.sim.Texts()[0]; got.To != "+4915112345678" || got.From != "+15005550006" || got.Body != "hello" ||
		got.Service != "" {
		t.Errorf("%+v", got)
	}
}

func TestTwilioSenders(t *testing.T) {
	r := newRig(t, smssim.Options{})
	for _, c := range []struct {
		more, from string
		verdict    queue.Verdict
	}{
		{`, "from": "+15005550007"`, "", queue.Down},               // the queue's: no text can be sent
		{`, "allow_from": ["+1500*"]`, "+15005550007", queue.Bury}, // the job's own
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
	const nowhere = "127.0.0.1:1"
	r.may(nowhere)
	for name, c := range map[string]struct{ old, new, reason string }{
		"another token":   {"${secret:TOKEN}", "wrong-token", "auth_token"},
		"another account": {smssim.DefaultAccount, "ACother", "check account"},
		"no secret":       {"${secret:TOKEN}", "${secret:ABSENT}", "ABSENT"},
		"another site":    {r.url, r.url + "/prefix", "check url"},
		"nobody listens":  {r.url, "http://" + nowhere, "refused"},
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

const untold = -time.Hour // the provider does not say for how long

func TestTwilioThrottled(t *testing.T) {
	for name, c := range map[string]struct {
		header string
		least  time.Duration
		most   time.Duration
	}{
		"seconds":     {"7", 6 * time.Second, 7 * time.Second},
		"a date":      {time.Now().Add(time.Minute).UTC().Format(http.TimeFormat), 57 * time.Second, 61 * time.Second},
		"a past date": {"Sun, 06 Nov 1994 08:49:37 GMT", -time.Second, 0},
		"nothing":     {"", untold, untold},
		"nonsense":    {"soon", untold, untold},
		"too long":    {"99999999999", queue.MaxStop - time.Minute, queue.MaxStop},
		"endless":     {"99999999999999999999", queue.MaxStop - time.Minute, queue.MaxStop},
		"far date":    {"Fri, 31 Dec 9999 23:59:59 GMT", queue.MaxStop - time.Minute, queue.MaxStop},
	} {
		r := newRig(t, smssim.Options{})
		r.serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if c.header != "" {
				w.Header().Set("Retry-After", c.header)
			}
			w.WriteHeader(http.StatusTooManyRequests)
		}))
		err := r.send("+4915112345678", "hello", "")
		said := drain.What(err)
		wait := untold
		if !said.Until.IsZero() {
			wait = time.Until(said.Until)
		}
		if said.Verdict != queue.Throttle || said.LaneOnly || wait < c.least || wait > c.most {
			t.Errorf("%s: %+v, in %v", name, said, wait)
		}
		if says := strings.Contains(fmt.Sprint(err), "shortened to 24h0m0s"); says != (c.most == queue.MaxStop) {
			t.Errorf("%s: says %v", name, err)
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
		"a website": {200, "<html>welcome</html>", queue.Hold},
		"no sid":    {201, `{"status": "queued"}`, queue.Hold},
		"a text that failed": {
			201, `{"sid": "SM1", "status": "failed", "error_code": 30001, "error_message": "Queue overflow"}`, queue.Throttle,
		},
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
		if err == nil || strings.Contains(err.Error(), token) || strings.Contains(r.log.String(), token) ||
			strings.Contains(err.Error(), "QUNz") {
			t.Errorf("%d: %v\n%s", status, err, r.log.String())
		}
	}
}

// A job that was taken as it is, and can never be sent, is dead.
func TestTwilioBadJob(t *testing.T) {
	r := newRig(t, smssim.Options{})
	if err := r.send("12345", "hello", ""); drain.What(err).Verdict != queue.Bury ||
		!strings.Contains(err.Error(), "payload.to") {
		t.Error(err)
	}
	if requests, _, _ := r.sim.Counts(); requests != 0 {
		t.Error("it was sent")
	}
}

// Without leave the inside of the network is not reached, and no job pays for it.
func TestTwilioInside(t *testing.T) {
	r := newRig(t, smssim.Options{})
	router := deliver.New(deliver.Options{Secrets: secrets.Source{Allow: r.allow}})
	defer func() { _ = router.Close() }()
	err := router.Handle(t.Context(), r.job("+4915112345678", "hello", ""), open{})
	if said := drain.What(err); said.Verdict != queue.Down || !strings.Contains(err.Error(), egress.Flag) {
		t.Errorf("%v, %+v", err, said)
	}
}

// A late gate lets nothing out; one that takes a while does not use up the timeout.
func TestTwilioGate(t *testing.T) {
	r := newRig(t, smssim.Options{})
	err := r.router.Handle(t.Context(), r.job("+4915112345678", "hello", ""), late{})
	if drain.What(err).Verdict != queue.Fail || !strings.Contains(err.Error(), drain.ErrLate.Error()) {
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
		t.Run(name, func(t *testing.T) {
			r := newRig(t, smssim.Options{})
			r.serve(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				_ = q.ParseForm() // or nobody notices when the client goes
				h(w, q)
			}))
			start := time.Now()
			err := r.send("+4915112345678", "hello", `, "timeout": "1s", "grace": "0s"`) // it has to be sent within it
			if took := time.Since(start); drain.What(err).Verdict != queue.Hold || took > 10*time.Second {
				t.Errorf("%v after %v", err, took)
			}
		})
	}
}
