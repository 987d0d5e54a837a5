package status_test

import (
	"slices"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/status"
)

// noon is a Wednesday in winter.
var noon = time.Date(2026, 1, 14, 12, 0, 0, 0, time.UTC)

// change makes a queue with jobs that leave into another one.
type change func(i *queue.Info)

func waiting(n int64) change { return func(i *queue.Info) { i.Waiting = n } }
func scheduled(n int64) change {
	return func(i *queue.Info) { i.Scheduled, i.NextDue = n, noon.Add(5*time.Hour) }
}

func silent(d time.Duration) change {
	return func(i *queue.Info) { i.Asked = i.Now.Add(-d) }
}
func pulls(i *queue.Info)      { i.Spec.Pull = true }
func neverAsked(i *queue.Info) { i.Asked = time.Time{} }
func idle(i *queue.Info)       { i.Waiting, i.Ready = 0, time.Time{} }
func parentPaused(i *queue.Info) {
	i.Parent = &queue.Info{
		Spec: queue.Spec{Name: "ses"}, Now: i.Now,
		Pause: queue.Pause{Since: noon, Until: noon.Add(9 * time.Hour), Reason: "invoice", By: "ann"},
	}
}
func paused(i *queue.Info) { i.Pause = queue.Pause{Since: noon, Reason: "a bug", By: "bob"} }
func open(i *queue.Info) {
	i.Circuit = queue.CircuitInfo{Opened: noon.Add(-time.Minute), Reason: "refused"}
	i.Stop = queue.Stop{Until: noon.Add(12 * time.Second), Cause: queue.StopDown, Reason: "refused"}
}

func probing(i *queue.Info) {
	i.Circuit = queue.CircuitInfo{Opened: noon.Add(-time.Minute), Reason: "refused"}
}

func throttled(i *queue.Info) {
	i.Stop = queue.Stop{Until: noon.Add(time.Hour), Cause: queue.StopThrottled, Reason: "429"}
}

func ready(in time.Duration) change {
	return func(i *queue.Info) { i.Ready = i.Now.Add(in) }
}
func outflow(perSecond float64) change { return func(i *queue.Info) { i.Outflow = perSecond } }
func inFlight(n, most int64) change {
	return func(i *queue.Info) { i.Leased, i.Spec.MaxInFlight = n, most }
}
func lanesRest(i *queue.Info) { i.LanesRest = true }

// daily is a quota of 100 a day in Berlin, with this much used.
func daily(used int64) change {
	return func(i *queue.Info) {
		i.Spec.Limits = []queue.Limit{
			{Rate: leaky.PerSecond(5)}, {Quota: queue.Quota{Max: 100, Per: "d"}, Timezone: "Europe/Berlin"},
		}
		i.Limits = []queue.LimitState{{}, {Window: leaky.Window{Ends: leaky.Instant(midnight.UnixMicro()), Used: used}}}
	}
}

// midnight is the next one of Berlin.
var midnight = time.Date(2026, 1, 14, 23, 0, 0, 0, time.UTC)

func ofParent(c change) change {
	return func(i *queue.Info) {
		p := queue.Info{Spec: queue.Spec{Name: "ses"}, Now: i.Now}
		c(&p)
		i.Parent = &p
	}
}

// heads makes it a parent whose children have jobs, and which has none itself.
func heads(i *queue.Info) {
	i.Waiting, i.Group = 0, queue.GroupInfo{Children: 2, Members: 1, Waiting: 7}
}

// TestStatusTable is the truth table of statuses: the changes to a queue whose jobs leave at its rate.
func TestStatusTable(t *testing.T) {
	at := func(code status.Code, until time.Time) status.Status {
		return status.Status{Code: code, Until: until}
	}
	only := func(code status.Code) status.Status { return status.Status{Code: code} }
	down := status.Status{Code: status.CircuitOpen, Until: noon.Add(12 * time.Second), Reason: "refused"}
	quota := status.Status{Code: status.Quota, Until: midnight, Reason: "100/d Europe/Berlin"}
	parents := quota
	parents.Queue = "ses"
	stopped := status.Status{Code: status.Paused, Reason: "a bug", By: "bob"}
	above := status.Status{
		Code: status.ParentPaused, Until: noon.Add(9 * time.Hour), Queue: "ses", Reason: "invoice", By: "ann",
	}
	for name, row := range map[string]struct {
		changes []change
		want    status.Status
		text    string
	}{
		"jobs leave": {nil, only(status.Flowing), "flowing"},
		"the next in an hour": {
			[]change{ready(time.Hour), outflow(0)},
			at(status.Flowing, noon.Add(time.Hour)),
			"flowing, next at 13:00 UTC",
		},
		"the last is under way":       {[]change{idle, inFlight(1, 0)}, only(status.Flowing), "flowing"},
		"nothing to do":               {[]change{idle}, only(status.Idle), "idle"},
		"nothing to do, nobody there": {[]change{idle, neverAsked}, only(status.Idle), "idle"},
		"paused":                      {[]change{paused}, stopped, "paused"},
		"paused and empty":            {[]change{paused, idle}, stopped, "paused"},
		"paused before all else": {
			[]change{paused, parentPaused, neverAsked, open, daily(100)}, stopped, "paused",
		},
		"parent paused": {[]change{parentPaused}, above, "parent paused until 21:00 UTC"},
		"parent paused, nobody there": {
			[]change{parentPaused, neverAsked, open}, above, "parent paused until 21:00 UTC",
		},
		"no drainer ever":     {[]change{neverAsked}, only(status.NoDrainer), "no drainer"},
		"no drainer for 10 s": {[]change{silent(10 * time.Second)}, only(status.Flowing), "flowing"},
		"no drainer for longer": {
			[]change{silent(10*time.Second + 1)}, only(status.NoDrainer), "no drainer",
		},
		"no drainer for a schedule": {
			[]change{idle, scheduled(3), neverAsked}, only(status.NoDrainer), "no drainer",
		},
		"no drainer for a lost lease": {
			[]change{idle, inFlight(1, 0), neverAsked}, only(status.NoDrainer), "no drainer",
		},
		"no drainer before what else is": {
			[]change{neverAsked, open, throttled, daily(100), inFlight(1, 1)},
			only(status.NoDrainer),
			"no drainer",
		},
		"no worker": {
			[]change{pulls, silent(time.Minute)}, only(status.NoWorker), "waits for workers",
		},
		"workers at work, none asks": {
			[]change{pulls, silent(time.Minute), inFlight(3, 0)}, only(status.NoWorker), "waits for workers",
		},
		"workers have it all": {
			[]change{pulls, idle, silent(time.Minute), inFlight(3, 0)}, only(status.Flowing), "flowing",
		},
		"a worker asks": {
			[]change{pulls, silent(time.Second)}, only(status.Flowing), "flowing",
		},
		"circuit open":           {[]change{open}, down, "circuit open, next probe in 12 s"},
		"circuit open and empty": {[]change{open, idle}, down, "circuit open, next probe in 12 s"},
		"circuit open, the probe under way": {
			[]change{probing}, status.Status{Code: status.CircuitOpen, Reason: "refused"}, "circuit open",
		},
		"throttled": {
			[]change{throttled, daily(100)},
			status.Status{Code: status.Throttled, Until: noon.Add(time.Hour), Reason: "429"},
			"receiver asked to wait until 13:00 UTC",
		},
		"quota used up": {
			[]change{daily(100), ready(11 * time.Hour)}, quota, "quota until 23:00 UTC",
		},
		"outside its hours, before a quota": {
			[]change{daily(100), func(i *queue.Info) { i.Spec.Hours = queue.OpenHours{Open: "13:00-14:00"}.Hours() }},
			status.Status{Code: status.Hours, Until: noon.Add(time.Hour), Reason: "13:00-14:00 UTC"},
			"outside its hours until 13:00 UTC",
		},
		"within its hours": {
			[]change{daily(100), func(i *queue.Info) { i.Spec.Hours = queue.OpenHours{Open: "12:00-14:00"}.Hours() }},
			quota, "quota until 23:00 UTC",
		},
		"quota above its maximum":          {[]change{daily(101)}, quota, "quota until 23:00 UTC"},
		"quota left":                       {[]change{daily(99)}, only(status.Flowing), "flowing"},
		"quota used up, and nothing waits": {[]change{daily(100), idle}, only(status.Idle), "idle"},
		"parent's quota": {
			[]change{ofParent(daily(100))}, parents, "parent's quota until 23:00 UTC",
		},
		"own quota before the parent's": {
			[]change{ofParent(daily(100)), daily(100)}, quota, "quota until 23:00 UTC",
		},
		"a parent for its children":    {[]change{heads, daily(100)}, quota, "quota until 23:00 UTC"},
		"a parent whose children flow": {[]change{heads}, only(status.Flowing), "flowing"},
		"at max_in_flight": {
			[]change{inFlight(4, 4), ready(-time.Hour), outflow(0)}, only(status.MaxInFlight), "at max_in_flight",
		},
		"below max_in_flight": {[]change{inFlight(3, 4)}, only(status.Flowing), "flowing"},
		"lanes rest": {
			[]change{lanesRest, ready(time.Minute)},
			at(status.Lanes, noon.Add(time.Minute)),
			"lanes at their limits until 12:01:00 UTC",
		},
		"lanes are in flight": {
			[]change{lanesRest, func(i *queue.Info) { i.Ready = time.Time{} }},
			only(status.Lanes),
			"lanes at their limits",
		},
		"lanes rest for a moment": {
			[]change{lanesRest, ready(time.Second)}, only(status.Flowing), "flowing",
		},
		"stalled": {
			[]change{ready(-10*time.Second - 1), outflow(0)}, only(status.Stalled), "stalled",
		},
		"not yet stalled": {
			[]change{ready(-10 * time.Second), outflow(0)}, only(status.Flowing), "flowing",
		},
		"slow, and not stalled": {
			[]change{ready(-time.Minute), outflow(0.1)}, only(status.Flowing), "flowing",
		},
		"a schedule": {
			[]change{idle, scheduled(3)},
			at(status.Schedule, noon.Add(5*time.Hour)),
			"schedule, next at 17:00 UTC",
		},
		"a schedule beside the flow": {[]change{scheduled(3)}, only(status.Flowing), "flowing"},
		"deferred": {
			[]change{idle, func(i *queue.Info) { i.Deferred = 1 }}, only(status.Deferred), "deferred",
		},
		"deferred until its hours": {
			[]change{idle, func(i *queue.Info) {
				i.Deferred, i.Spec.Deferred.ReadmitBetween = 1, queue.ReadmitIn("22:00-06:00")
			}},
			at(status.Deferred, noon.Add(10*time.Hour)), "deferred until 22:00 UTC",
		},
		"held": {[]change{idle, func(i *queue.Info) { i.Held = 2 }}, only(status.Held), "held"},
		"full": {[]change{waiting(100)}, status.Status{Code: status.Flowing, Full: true}, "flowing, full"},
		"held, full": {
			[]change{idle, func(i *queue.Info) { i.Held = 100 }},
			status.Status{Code: status.Held, Full: true},
			"held, full",
		},
	} {
		t.Run(name, func(t *testing.T) {
			i := queue.Info{
				Spec: queue.Spec{Name: "q", Capacity: 100, Rate: leaky.PerSecond(10)}, Now: noon, Asked: noon,
				Waiting: 5, Ready: noon, Outflow: 10,
			}
			for _, change := range row.changes {
				change(&i)
			}
			got := status.Of(&i)
			if got.Code != row.want.Code || !got.Until.Equal(row.want.Until) || got.Queue != row.want.Queue ||
				got.Reason != row.want.Reason || got.By != row.want.By || got.Full != row.want.Full {
				t.Errorf("got %+v\nwant %+v", got, row.want)
			}
			if text := got.Text(noon); text != row.text {
				t.Errorf("it reads %q, want %q", text, row.text)
			}
		})
	}
}

// TestStatusCodesAreToldApart checks that the table has each code once, with a text.
func TestStatusCodesAreToldApart(t *testing.T) {
	texts := map[string]bool{}
	for _, code := range status.Codes() {
		s := status.Status{Code: code}
		if text := s.Text(noon); text == "" || texts[text] {
			t.Errorf("%s reads %q", code, text)
		} else {
			texts[text] = true
		}
	}
	if codes := status.Codes(); len(codes) != 17 || codes[0] != status.Paused ||
		codes[16] != status.Idle || len(slices.Compact(slices.Sorted(slices.Values(codes)))) != 17 {
		t.Errorf("codes: %v", codes)
	}
}

// TestStatusTextAcrossDays checks how instants of other days and in other zones are written.
func TestStatusTextAcrossDays(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	s := status.Status{Code: status.Quota, Until: midnight}
	if got := s.Text(noon.In(berlin)); got != "quota until 2026-01-15 00:00 CET" {
		t.Error(got)
	}
	s = status.Status{Code: status.Schedule, Until: midnight}
	if got := s.Text(noon.In(berlin)); got != "schedule, next at 2026-01-15 00:00 CET" {
		t.Error(got)
	}
	if got := s.Text(midnight.Add(time.Hour)); got != "schedule, next in 0 s" {
		t.Error(got)
	}
}

// A queue that stands still says what ends it, and since when if known; other queues say neither.
func TestStandstill(t *testing.T) {
	for n, c := range status.Codes() {
		s := status.Status{Code: c}
		if still := n < slices.Index(status.Codes(), status.Flowing); (s.Ends() != "") != still {
			t.Errorf("%s ends when %q", c, s.Ends())
		}
	}
	since := noon.Add(-time.Hour)
	for _, tt := range []struct {
		code status.Code
		ends string
		i    queue.Info
	}{
		{status.Paused, "the queue is resumed", queue.Info{Pause: queue.Pause{Since: since}}},
		{
			status.ParentPaused, "that time is over, or the parent is resumed",
			queue.Info{Parent: &queue.Info{Pause: queue.Pause{Since: since, Until: noon.Add(1)}}},
		},
		{status.NoDrainer, "a drainer asks for jobs", queue.Info{Waiting: 1, Asked: since}},
		{
			status.CircuitOpen, "a probe succeeds, or the queue is resumed",
			queue.Info{Waiting: 1, Asked: noon, Circuit: queue.CircuitInfo{Opened: since}},
		},
		{
			status.Stalled, "a drainer that can take the jobs asks for them",
			queue.Info{Waiting: 1, Asked: noon, Ready: since},
		},
	} {
		tt.i.Now = noon
		if s := status.Of(&tt.i); s.Code != tt.code || !s.Since.Equal(since) || s.Ends() != tt.ends {
			t.Errorf("%s: %+v ends when %q", tt.code, s, s.Ends())
		}
	}
	if s := status.Of(&queue.Info{Now: noon, Asked: since}); !s.Since.IsZero() {
		t.Errorf("%+v", s)
	}
}
