package console

import (
	"fmt"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

func TestOutlookInWords(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	in := func(d time.Duration) *time.Time {
		at := now.Add(d)
		return &at
	}
	seconds := func(s float64) *float64 { return &s }
	for _, c := range []struct {
		name string
		o    *wire.Outlook
		jobs int64
		want string
	}{
		{"unknown", nil, 5, "delay  false, finish , never "},
		{"empty", &wire.Outlook{DelaySeconds: seconds(0), FinishAt: in(0)}, 0, "delay 0 s false, finish , never "},
		{
			"soon", &wire.Outlook{DelaySeconds: seconds(90), FinishAt: in(90 * time.Second)}, 5,
			"delay 1 m 30 s false, finish 03:05:35, never ",
		},
		{
			"today", &wire.Outlook{DelaySeconds: seconds(1), FinishAt: in(9 * time.Hour)}, 5,
			"delay 1 s false, finish 12:04, never ",
		},
		{
			"later", &wire.Outlook{DelaySeconds: seconds(1), FinishAt: in(72 * time.Hour)}, 5,
			"delay 1 s false, finish Jan 5 03:04, never ",
		},
		{
			"years", &wire.Outlook{DelaySeconds: seconds(1), FinishAt: in(9000 * time.Hour)}, 5,
			"delay 1 s false, finish 2027-01-12, never ",
		},
		{"never", &wire.Outlook{Why: "paused"}, 5, "delay  true, finish never, never waits for the queue to be resumed"},
		{
			"old jobs never, new ones leave", &wire.Outlook{DelaySeconds: seconds(2), Why: "lane_rate"}, 5,
			"delay 2 s false, finish never, never waits for its turn at the rate of its lane",
		},
	} {
		v := outlookOf(c.o, c.jobs, now)
		if got := fmt.Sprintf("delay %s %v, finish %s, never %s", v.Delay, v.Stuck, v.Finish, v.Never); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestQuotaIsUsedUp(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	ends, bend := now.Add(time.Hour), now.Add(10*time.Minute)
	quota := func(used int64) quotaCard {
		return quotaCard{Quota: wire.Quota{
			Quota: queue.Quota{Max: 1000, Per: "h"}, Timezone: "Europe/Berlin", Used: used, Left: 1000 - used, Ends: ends,
		}}
	}
	ofParent := quota(400)
	ofParent.Of = "ses"
	by := func(reason, parent string, at time.Time) *wire.QueueForecast {
		return &wire.QueueForecast{Now: now, Bends: []wire.Bend{
			{At: now, Why: "rate"}, {At: at, Why: "quota", Reason: reason, Queue: parent},
		}}
	}
	none := &wire.QueueForecast{Now: now}
	for _, c := range []struct {
		name    string
		card    quotaCard
		f       *wire.QueueForecast
		outflow float64
		empty   time.Duration // 0 is not known
		rate    float64
		lasts   bool
	}{
		{"used up", quota(1000), by("1000/h Europe/Berlin", "", now), 1, 0, 0, false},
		{"by the forecast", quota(400), by("1000/h Europe/Berlin", "", bend), 1, 10 * time.Minute, 0, false},
		{"another quota", quota(400), by("9/m", "", bend), 0, 0, 0, false},
		{"in the next window", quota(400), by("1000/h Europe/Berlin", "", ends.Add(time.Minute)), 0, 0, 0, false},
		{"at the present rate", quota(400), none, 1, 10 * time.Minute, 1, false},
		{"lasts", quota(400), none, 0.1, 0, 0.1, true},
		{"nothing leaves", quota(400), none, 0, 0, 0, false},
		{"of the parent", ofParent, by("1000/h Europe/Berlin", "ses", bend), 1, 10 * time.Minute, 0, false},
		{"of the parent, at an unknown rate", ofParent, by("1000/h Europe/Berlin", "", bend), 1, 0, 0, false},
	} {
		c.card.foresee(c.f, c.outflow)
		var empty time.Duration
		if c.card.Empty != nil {
			empty = c.card.Empty.Sub(now)
		}
		if empty != c.empty || c.card.Rate != c.rate || c.card.Lasts != c.lasts {
			t.Errorf("%s: empty in %v, rate %v, lasts %v", c.name, empty, c.card.Rate, c.card.Lasts)
		}
	}
}

func TestReceiverOfAttempts(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	attempt := func(at, took time.Duration, o queue.AttemptOutcome, answer string) wire.Attempt {
		from, to := now.Add(at), now.Add(at+took)
		return wire.Attempt{At: &from, EndedAt: &to, Outcome: o, Answer: answer}
	}
	var jobs []wire.Job
	for n := range 96 {
		jobs = append(jobs, wire.Job{Timeline: []wire.Attempt{
			attempt(time.Minute, time.Duration(n+1)*time.Millisecond, queue.AttemptDelivered, ""),
		}})
	}
	jobs = append(jobs,
		wire.Job{Timeline: []wire.Attempt{
			attempt(-time.Hour, time.Second, queue.AttemptFailed, "503"), // too long ago
			attempt(time.Second, 2*time.Second, queue.AttemptFailed, "503"),
			attempt(time.Minute, 2*time.Second, queue.AttemptFailed, "503"),
			attempt(2*time.Minute, 3*time.Second, queue.AttemptDied, "400"),
		}},
		wire.Job{Timeline: []wire.Attempt{
			attempt(time.Minute, time.Hour, queue.AttemptLost, ""), {At: &now}, {}, // no answer came
		}},
	)
	v := receiverView{}
	v.count(jobs, now, now.Add(2*time.Hour))
	if v.Attempts != 100 || !v.Since.Equal(now.Add(time.Second)) {
		t.Errorf("%d attempts since %v", v.Attempts, v.Since)
	}
	if got := fmt.Sprint(v.Latencies); got != "[{p50 50 ms} {p95 95 ms} {p99 3.0 s}]" {
		t.Errorf("latencies %s", got)
	}
	var rows []string
	for _, a := range v.Answers {
		rows = append(rows, fmt.Sprintf("%s %s %d %s %s", a.Outcome, a.Answer, a.N, a.Median, a.Tone))
	}
	want := []string{"delivered  96 48 ms ", "retry 503 2 2.0 s warn", "dead 400 1 3.0 s bad", "lost  1 1 h bad"}
	if fmt.Sprintf("%q", rows) != fmt.Sprintf("%q", want) {
		t.Errorf("answers %q, want %q", rows, want)
	}
	many := receiverView{}
	for n := range receiverAnswers + 7 {
		jobs = append(jobs, wire.Job{Timeline: []wire.Attempt{
			attempt(time.Minute, 1, queue.AttemptDied, fmt.Sprint("job ", n)),
		}})
	}
	if many.count(jobs, now, now.Add(2*time.Hour)); len(many.Answers) != receiverAnswers || many.Rest != 11 {
		t.Errorf("%d answers, %d more", len(many.Answers), many.Rest)
	}
}

func TestTargetHost(t *testing.T) {
	for deliver, want := range map[string]string{
		"": "", "null": "", "{}": "", `{"http":{"url":"https://api.example.com:8443/v1/x?y"}}`: "api.example.com:8443",
		`{"smtp":{"host":"mail.example.com","port":587}}`: "mail.example.com", `{"nats":{"subject":"x"}}`: "nats",
		`{"own":"text"}`: "own", `{"own":{"url":5}}`: "own",
	} {
		if got := targetHost([]byte(deliver)); got != want {
			t.Errorf("%s: %q, want %q", deliver, got, want)
		}
	}
}
