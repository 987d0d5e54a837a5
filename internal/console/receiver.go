package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

const (
	receiverDelivered = 500 // the latest delivered jobs that the page looks at
	receiverDead      = 200 // dead jobs
	receiverSpan      = time.Hour
	receiverAnswers   = 50 // rows
)

// receiverView is the data of the page about a queue's receiver: how it answered recent attempts, and how fast.
type receiverView struct {
	Queue     string
	Target    string // the host, or the kind of the target
	Pull      bool
	Attempts  int
	Since     time.Time // begin of the earliest attempt
	Latencies []latency
	Answers   []*answers
	Rest      int // answers that are not shown
}

// latency is a percentile of the time between the departure and the answer.
type latency struct{ Name, Took string }

// answers are the attempts with the same outcome and answer.
type answers struct {
	Outcome string
	Tone    string
	Answer  string
	N       int
	Share   gauge
	Median  string
	Last    time.Time

	took []time.Duration
}

func readReceiver(r *request) (any, error) {
	name := r.PathValue("queue")
	r.Title = "Receiver of " + name
	q, err := r.api.Queue(r.Context(), name)
	if err != nil {
		return nil, err
	}
	delivered, err := r.api.Jobs(r.Context(), name, client.List{State: "delivered", Limit: receiverDelivered})
	if err != nil {
		return nil, err
	}
	// Dead jobs, which are listed oldest first, count for the same span as delivered ones, so that the shares are right.
	until := time.Now()
	since := until.Add(-receiverSpan)
	if n := len(delivered.Jobs); n > 0 && delivered.Next != "" && delivered.Jobs[n-1].EndedAt != nil {
		since = *delivered.Jobs[n-1].EndedAt
	}
	dead, err := r.api.Jobs(r.Context(), name, client.List{State: "dead", Limit: receiverDead, Since: &since})
	if err != nil {
		return nil, err
	}
	if n := len(dead.Jobs); n > 0 && dead.Next != "" && dead.Jobs[n-1].EndedAt != nil {
		until = *dead.Jobs[n-1].EndedAt
	}
	v := receiverView{Queue: name, Target: targetHost(q.Deliver), Pull: q.Pull}
	v.count(append(delivered.Jobs, dead.Jobs...), since, until)
	return v, nil
}

// count sums up the attempts that ended within a span.
func (v *receiverView) count(jobs []wire.Job, since, until time.Time) {
	type key struct {
		outcome queue.AttemptOutcome
		answer  string
	}
	groups, all := map[key]*answers{}, []time.Duration{}
	for i := range jobs {
		for _, a := range jobs[i].Timeline {
			if a.At == nil || a.EndedAt == nil || a.EndedAt.Before(since) || a.EndedAt.After(until) {
				continue
			}
			g := groups[key{a.Outcome, a.Answer}]
			if g == nil {
				g = &answers{Outcome: a.Outcome.String(), Tone: toneOfOutcome(a.Outcome), Answer: a.Answer}
				groups[key{a.Outcome, a.Answer}] = g
			}
			took := a.EndedAt.Sub(*a.At)
			g.N++
			g.took = append(g.took, took)
			if a.EndedAt.After(g.Last) {
				g.Last = *a.EndedAt
			}
			if v.Attempts++; v.Since.IsZero() || a.At.Before(v.Since) {
				v.Since = *a.At
			}
			if a.Outcome != queue.AttemptLost { // its lease ran out: no answer came
				all = append(all, took)
			}
		}
	}
	for _, p := range []struct {
		name string
		of   float64
	}{{"p50", 0.5}, {"p95", 0.95}, {"p99", 0.99}} {
		v.Latencies = append(v.Latencies, latency{p.name, percentile(all, p.of)})
	}
	for _, g := range groups {
		g.Share, g.Median = gaugeOf(int64(g.N), int64(v.Attempts), num), percentile(g.took, 0.5)
		g.Share.Tone = g.Tone
		v.Answers = append(v.Answers, g)
	}
	slices.SortFunc(v.Answers, func(a, b *answers) int {
		return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Outcome, b.Outcome), cmp.Compare(a.Answer, b.Answer))
	})
	v.Rest = max(0, len(v.Answers)-receiverAnswers)
	v.Answers = v.Answers[:len(v.Answers)-v.Rest]
}

// toneOfOutcome returns the color of an outcome.
func toneOfOutcome(o queue.AttemptOutcome) string {
	switch o {
	case queue.AttemptDelivered:
		return ""
	case queue.AttemptDied, queue.AttemptDown, queue.AttemptLost:
		return "bad"
	}
	return "warn"
}

// percentile returns the duration that a share of all does not exceed; empty without any.
func percentile(all []time.Duration, share float64) string {
	if len(all) == 0 {
		return ""
	}
	slices.Sort(all)
	d := all[max(0, int(math.Ceil(share*float64(len(all))))-1)]
	if d >= time.Second && d < 10*time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return lasting(unit.Duration(d))
}

// targetHost returns the host of a target, or the target's kind if its settings name no host.
func targetHost(deliver json.RawMessage) string {
	var kinds map[string]json.RawMessage
	if json.Unmarshal(deliver, &kinds) != nil {
		return ""
	}
	for kind, setting := range kinds {
		var of struct{ URL, Host string }
		_ = json.Unmarshal(setting, &of) // other kinds have other types
		if at, err := url.Parse(of.URL); err == nil && at.Host != "" {
			return at.Host
		}
		return cmp.Or(of.Host, kind)
	}
	return ""
}
