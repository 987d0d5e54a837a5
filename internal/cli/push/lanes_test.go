package push_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/internal/cli/push"
	"github.com/penstock/penstock/internal/client"
)

// laned is a queue of which lane slow has room for five, and lets one out a second. The
// other lanes have all the room there is.
type laned struct {
	since       time.Time
	slow, other []string
	done        time.Duration // when the last of the others was in
	sent        int
}

func (l *laned) Append(_ context.Context, _ string, jobs [][]byte) ([]client.Answer, error) {
	answers := make([]client.Answer, len(jobs))
	l.sent += len(jobs)
	for i, job := range jobs {
		var j struct{ ID, Lane string }
		if err := json.Unmarshal(job, &j); err != nil {
			return nil, err
		}
		a := &answers[i]
		a.ID, a.Status = j.ID, http.StatusAccepted
		switch {
		case j.Lane != "slow":
			l.other, l.done = append(l.other, j.ID), time.Since(l.since)
		case len(l.slow) < 5+int(time.Since(l.since)/time.Second):
			l.slow = append(l.slow, j.ID)
		default:
			a.Status, a.Reason, a.RetryAfterMS = http.StatusTooManyRequests, "lane_full", 1000
		}
	}
	return answers, nil
}

// A full lane holds up only its own lines, in order, within the limits of memory.
func TestPushPassesAFullLane(t *testing.T) {
	for _, c := range []struct {
		slow, other int
		passes      bool
	}{{60, 60, true}, {300, 60, false}} { // ten batches of ten are parked
		synctest.Test(t, func(t *testing.T) {
			var text strings.Builder
			var slow, other []string
			for i := range c.slow {
				slow = append(slow, fmt.Sprintf("s%d", i))
				fmt.Fprintf(&text, "{\"id\":\"s%d\",\"lane\":\"slow\",\"payload\":1}\n", i)
			}
			for i := range c.other {
				other = append(other, fmt.Sprintf("o%d", i))
				fmt.Fprintf(&text, "{\"id\":\"o%d\",\"lane\":\"l%d\",\"payload\":1}\n{\"id\":\"n%d\",\"payload\":1}\n", i, i%7, i)
				other = append(other, fmt.Sprintf("n%d", i))
			}
			src, err := push.Open(strings.NewReader(text.String()), push.NDJSON)
			if err != nil {
				t.Fatal(err)
			}
			l := &laned{since: time.Now()}
			count, err := push.Push(t.Context(), l, "email", src, push.Options{Batch: 10})
			if err != nil || count.Accepted != c.slow+2*c.other || count.Undecided+count.Failed+count.Refused != 0 {
				t.Fatalf("%+v, %v", count, err)
			}
			if !slices.Equal(l.slow, slow) || !slices.Equal(l.other, other) {
				t.Errorf("they came in as %v and %v", l.slow, l.other)
			}
			if passes := l.done == 0; passes != c.passes {
				t.Errorf("the others were in after %v", l.done)
			}
			if took := time.Since(l.since); took > time.Duration(c.slow)*time.Second {
				t.Errorf("took %v, one a second leaves", took)
			}
			if most := (c.slow+2*c.other)*2 + 20*c.slow; l.sent > most {
				t.Errorf("sent %d lines, want at most %d", l.sent, most)
			}
		})
	}
}
