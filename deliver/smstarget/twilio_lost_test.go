package smstarget_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/cli/sink/smssim"
	"github.com/penstock/penstock/queue"
)

// A text whose answer was lost is looked for, and only one that is this job's is found.
func TestTwilioLostAnswers(t *testing.T) {
	const to = "+4915112345678"
	faults := map[int]smssim.Fault{}
	var mu sync.Mutex
	lose := func(n int, f smssim.Fault) { mu.Lock(); faults[n] = f; mu.Unlock() }
	r := newRig(t, smssim.Options{
		Listed: 200 * time.Millisecond, Fault: func(n int) smssim.Fault { mu.Lock(); defer mu.Unlock(); return faults[n] },
	})

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
	if said := drain.What(err); said.Verdict != queue.Fail || !said.Trouble ||
		!strings.Contains(err.Error(), "counts as not sent") {
		t.Errorf("not listed: %v %+v", err, said)
	}
	if got := fmt.Sprint(r.texts()); got != "[late in the list twin one two]" {
		t.Error(got)
	}
}

// A text of the list is not taken for a job's while another job with the same text waits for its answer: it may be that
// one's.
func TestTwilioTwinUnderWay(t *testing.T) {
	const to = "+4915112345678"
	first, answer := make(chan struct{}), make(chan struct{})
	var posts atomic.Int32
	r := newRig(t, smssim.Options{})
	r.serve(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch {
		case q.Method == http.MethodGet:
			_, _ = fmt.Fprintf(w, `{"messages": [{"sid": "SM1", "to": %q, "from": "+15005550006", "body": "twin", `+
				`"direction": "outbound-api", "date_created": %q}]}`,
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
		"unavailable":      {503, "", queue.Hold},
		"no list":          {200, `{}`, queue.Hold},
		"cut off":          {200, `{"messages": [`, queue.Hold},
		"endless":          {200, `{"messages": [` + strings.Repeat(" ", 1<<20) + `]}`, queue.Hold},
		"no dates":         {200, `{"messages": [{"sid": "SM1"}]}`, queue.Hold},
		"more than a page": {200, `{"messages": [` + many(50, date(0)) + `], "next_page_uri": "/more"}`, queue.Hold},
		"a page, and older": {
			200, `{"messages": [` + many(50, date(-time.Hour)) + `], "next_page_uri": "/more"}`, queue.Fail,
		},
		"an empty list": {200, `{"messages": []}`, queue.Fail},
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
