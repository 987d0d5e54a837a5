package push_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/internal/cli/push"
	"github.com/penstock/penstock/internal/client"
)

// server is a queue with room for so many, which lets one out a second.
type server struct {
	room  int
	since time.Time
	in    map[string]bool
	order []string
	calls int
	// before, if not nil, may answer instead.
	before func(call int, ids []string) ([]client.Answer, error)
}

func (s *server) Append(_ context.Context, _ string, jobs [][]byte) ([]client.Answer, error) {
	s.calls++
	ids := make([]string, len(jobs))
	for i, job := range jobs {
		var j struct{ ID string }
		if err := json.Unmarshal(job, &j); err != nil {
			return nil, err
		}
		ids[i] = j.ID
	}
	if s.before != nil {
		if answers, err := s.before(s.calls, ids); answers != nil || err != nil {
			return answers, err
		}
	}
	if s.in == nil {
		s.in = map[string]bool{}
		s.since = time.Now()
	}
	answers := make([]client.Answer, len(ids))
	refused := int64(0)
	for i, id := range ids {
		a := &answers[i]
		a.ID = id
		switch {
		case s.in[id]:
			a.Status = http.StatusOK
		case len(s.in) < s.room+int(time.Since(s.since)/time.Second):
			s.in[id] = true
			s.order = append(s.order, id)
			a.Status = http.StatusAccepted
		default:
			refused++
			a.Status, a.RetryAfterMS = http.StatusTooManyRequests, 1000*refused
		}
	}
	return answers, nil
}

func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"id\":\"j%d\",\"payload\":%d}\n", i, i)
	}
	return b.String()
}

func run(t *testing.T, s *server, text string, o push.Options) (push.Count, error) {
	t.Helper()
	src, err := push.Open(strings.NewReader(text), push.NDJSON)
	if err != nil {
		t.Fatal(err)
	}
	return push.Push(t.Context(), s, "email", src, o)
}

func TestPushComesBackWhenTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{room: 10}
		start := time.Now()
		count, err := run(t, s, lines(25), push.Options{Batch: 10})
		if err != nil || count.Accepted != 25 || count.Read != 25 || count.Undecided != 0 {
			t.Fatalf("%+v, %v", count, err)
		}
		if count.Refusals < 15 {
			t.Errorf("%d refusals, the queue had room for 10 of 25", count.Refusals)
		}
		if took := time.Since(start); took < 15*time.Second || took > 17*time.Second {
			t.Errorf("took %v, one a second leaves", took)
		}
		for i, id := range s.order {
			if id != fmt.Sprintf("j%d", i) {
				t.Fatalf("entered in the order %v", s.order)
			}
		}
	})
}

func TestPushAgainAnswersDuplicate(t *testing.T) {
	s := &server{room: 100}
	text := strings.Repeat("{\"payload\":1}\n", 20) // equal lines, no ids
	if count, err := run(t, s, text, push.Options{Batch: 7}); err != nil || count.Accepted != 20 {
		t.Fatalf("%+v, %v", count, err)
	}
	if count, err := run(t, s, text, push.Options{}); err != nil || count.Duplicate != 20 || count.Accepted != 0 {
		t.Fatalf("again: %+v, %v", count, err)
	}
}

// Deferred jobs are taken, and counted apart; with the others they add up.
func TestPushCountsDeferred(t *testing.T) {
	s := &server{before: func(_ int, ids []string) ([]client.Answer, error) {
		return []client.Answer{
			{Status: 202, ID: ids[0], State: "waiting"},
			{Status: 202, ID: ids[1], State: "deferred"},
			{Status: 202, ID: ids[2], State: "deferred"},
			{Status: 200, ID: ids[3], State: "deferred"},
			{Status: 422, ID: ids[4], Reason: "expired", Field: "expires_at", Detail: "has passed"},
		}, nil
	}}
	taken := 0
	count, err := run(t, s, lines(5), push.Options{Taken: func(push.Line, *client.Answer) { taken++ }})
	if err != nil || count != (push.Count{Read: 5, Accepted: 1, Deferred: 2, Duplicate: 1, Failed: 1}) || taken != 4 {
		t.Errorf("%+v, %d taken, %v", count, taken, err)
	}
}

// An overflow that is full is come back to, as a queue is; one that is away is tried
// again.
func TestPushWaitsForTheOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		s := &server{before: func(call int, ids []string) ([]client.Answer, error) {
			return map[int][]client.Answer{
				1: {{Status: 429, ID: ids[0], Reason: "overflow_full", RetryAfterMS: 7000}},
				2: {{Status: 503, ID: ids[0], Reason: "overflow_unavailable", RetryAfterMS: 1000}},
				3: {{Status: 202, ID: ids[0], State: "deferred"}},
			}[call], nil
		}}
		count, err := run(t, s, lines(1), push.Options{})
		if err != nil || count.Deferred != 1 || count.Refusals != 1 || time.Since(start) < 8*time.Second {
			t.Errorf("%+v, %v, after %v", count, err, time.Since(start))
		}
	})
}

func TestPushNoWait(t *testing.T) {
	var told []int
	s := &server{room: 3}
	count, err := run(t, s, lines(5), push.Options{
		NoWait: true, Problem: func(l push.Line, _ string) { told = append(told, l.Number) },
	})
	if err != nil || count.Accepted != 3 || count.Refused != 2 || count.Undecided != 0 {
		t.Fatalf("%+v, %v", count, err)
	}
	if fmt.Sprint(told) != "[4 5]" {
		t.Errorf("told of %v", told)
	}
}

func TestPushReportsInvalidLines(t *testing.T) {
	var told []string
	s := &server{room: 3, before: func(_ int, ids []string) ([]client.Answer, error) {
		return []client.Answer{{Status: 202, ID: ids[0]}, {
			Status: 409, Reason: "conflict", Detail: "another job has this id",
		}}, nil
	}}
	count, err := run(t, s, "{\"id\":\"a\"}\nnonsense\n{\"id\":\"b\"}\n",
		push.Options{Problem: func(l push.Line, why string) {
			told = append(told, fmt.Sprint(l.Number, " ", why))
		}})
	if err != nil || count != (push.Count{Read: 3, Accepted: 1, Failed: 2}) {
		t.Fatalf("%+v, %v", count, err)
	}
	if len(told) != 2 || !strings.HasPrefix(told[0], "2 not JSON") || !strings.Contains(told[1], "conflict") {
		t.Errorf("told %q", told)
	}
}

func TestPushSurvivesASilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := &client.Unreachable{URL: "http://there", Err: errors.New("connection refused")}
		s := &server{room: 100, before: func(call int, _ []string) ([]client.Answer, error) {
			switch call {
			case 2, 3:
				return nil, gone
			case 4:
				return nil, &client.Problem{Status: 503, Reason: "unavailable", RetryAfterMS: 2000}
			}
			return nil, nil
		}}
		if count, err := run(t, s, lines(20), push.Options{Batch: 10}); err != nil || count.Accepted != 20 {
			t.Fatalf("%+v, %v", count, err)
		}
		s.before = func(int, []string) ([]client.Answer, error) { return nil, gone }
		start := time.Now()
		count, err := run(t, s, lines(20), push.Options{Batch: 10})
		if !errors.As(err, &gone) || count.Undecided != 10 {
			t.Fatalf("%+v, %v", count, err)
		}
		if took := time.Since(start); took < 20*time.Second || took > 30*time.Second {
			t.Errorf("gave up after %v, patience is 30 s", took)
		}
	})
}

func TestPushGivesUpOnALineNobodyCanDecide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{before: func(_ int, ids []string) ([]client.Answer, error) {
			return []client.Answer{{Status: 504, Reason: "outcome_unknown", ID: ids[0]}}, nil
		}}
		count, err := run(t, s, lines(1), push.Options{})
		if err != nil || count.Failed != 1 || count.Undecided != 0 || s.calls != 10 {
			t.Fatalf("%+v, %v after %d calls", count, err, s.calls)
		}
	})
}

func TestPushStopsAtAnUnknownQueue(t *testing.T) {
	unknown := client.Answer{Status: 404, Reason: "unknown_queue", Detail: "there is no queue"}
	s := &server{before: func(_ int, ids []string) ([]client.Answer, error) {
		answers := make([]client.Answer, len(ids))
		for i := range answers {
			answers[i] = unknown
		}
		return answers, nil
	}}
	count, err := run(t, s, lines(3000), push.Options{})
	var p *client.Problem
	if !errors.As(err, &p) || p.Reason != "unknown_queue" || s.calls != 1 || count.Undecided == 0 {
		t.Fatalf("%+v, %v after %d calls", count, err, s.calls)
	}
}

func TestPushBrokenOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(1500*time.Millisecond, cancel)
		s := &server{room: 2}
		src, err := push.Open(strings.NewReader(lines(9)), push.NDJSON)
		if err != nil {
			t.Fatal(err)
		}
		count, err := push.Push(ctx, s, "email", src, push.Options{})
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if count.Accepted != 3 || count.Read != 9 || count.Undecided != 6 {
			t.Errorf("%+v", count)
		}
	})
}

// Progress is called during a wait, with the reason and the end.
func TestWaitsAreToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := func(call int, ids []string) ([]client.Answer, error) {
			switch call {
			case 1:
				answers := make([]client.Answer, len(ids))
				for i := range answers {
					answers[i] = client.Answer{
						ID: ids[i], Status: http.StatusTooManyRequests, Reason: "full", Detail: "the queue holds all it may",
						RetryAfterMS: 10_000,
					}
				}
				return answers, nil
			case 2:
				return nil, &client.Unreachable{URL: "http://x", Err: errors.New("it is away")}
			}
			return nil, nil
		}
		told := map[string]int{}
		begun := time.Now()
		count, err := run(t, &server{room: 9, before: full}, lines(3), push.Options{Progress: func(n push.Count) {
			if told[n.Waits]++; n.Waits != "" && n.Undecided != 3 {
				t.Errorf("it says %+v", n)
			}
			if strings.Contains(n.Waits, "holds all") && n.Until.Sub(begun) != 10*time.Second {
				t.Errorf("until %v", n.Until.Sub(begun))
			}
		}})
		if err != nil || count.Accepted != 3 || count.Waits != "" || !count.Until.IsZero() {
			t.Errorf("%+v, %v", count, err)
		}
		if told["the queue holds all it may"] < 9 {
			t.Errorf("told of %v", told)
		}
	})
}
