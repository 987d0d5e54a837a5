package quote

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

// listed is a Jobs that lists jobs, in pages that need not be full.
type listed struct {
	queue.Jobs
	jobs  []queue.JobInfo
	page  int // jobs in one
	asked int
	fail  error
}

func (k *listed) ListJobs(_ context.Context, r queue.ListRequest) (queue.Listing, error) {
	if k.fail != nil {
		return queue.Listing{}, k.fail
	}
	k.asked++
	from, _ := strconv.Atoi(r.After)
	to := min(len(k.jobs), from+min(k.page, r.Limit))
	l := queue.Listing{Jobs: k.jobs[from:to]}
	if to < len(k.jobs) || k.page == 0 {
		l.Next = strconv.Itoa(to)
	}
	return l, nil
}

// expires are jobs of that lane and cost that expire so many seconds after quoteNow, or
// never.
func expires(lane string, cost int64, seconds ...float64) (list []queue.JobInfo) {
	for _, s := range seconds {
		j := queue.JobInfo{Lane: lane, Cost: cost}
		if s > 0 {
			j.ExpiresAt = quoteNow.Add(time.Duration(s * float64(time.Second)))
		}
		list = append(list, j)
	}
	return list
}

func TestExpiring(t *testing.T) {
	slow := leaky.PerSecond(1)
	none := func(*queue.Info) {}
	for _, tt := range []struct {
		what      string
		info      func(*queue.Info)
		jobs      []queue.JobInfo
		now, then Expiring // of a queue of 10/s, and at 1/s
	}{
		{"nothing waits", none, nil, Expiring{Exact: true}, Expiring{Exact: true}},
		{"none expires", none, expires("", 1, 0, 0, 0), Expiring{Exact: true}, Expiring{Exact: true}},
		{
			"up to the microsecond", none, expires("", 1, 0, 0.1, 0.2, 0.299999),
			Expiring{1, true, false},
			Expiring{3, true, false},
		},
		{
			"one that expires uses no slot", none, expires("", 1, 0, 0.09, 0.09, 0.1),
			Expiring{2, true, false},
			Expiring{3, true, false},
		},
		{
			"the cost of those before", none, expires("", 4, 0, 0.4, 0.7),
			Expiring{1, true, false},
			Expiring{2, true, false},
		},
		{
			"a burst", func(i *queue.Info) { i.Spec.Burst = 2 }, expires("", 1, 0.01, 0.01, 0.01),
			Expiring{1, true, false},
			Expiring{1, true, false},
		},
		{
			"the bucket", func(i *queue.Info) { i.Bucket = bucketAt(200*time.Millisecond, 2) }, expires("", 1, 0.1, 0.2),
			Expiring{1, true, false},
			Expiring{2, true, false},
		},
		{
			"one that has passed", none,
			[]queue.JobInfo{{Cost: 1, ExpiresAt: quoteNow.Add(-time.Hour)}, {Cost: 1}},
			Expiring{1, true, false},
			Expiring{1, true, false},
		},
		{
			"paused: as if it were resumed now", func(i *queue.Info) { i.Pause.Since = i.Now }, expires("", 1, 0, 0.05),
			Expiring{1, true, false},
			Expiring{1, true, false},
		},
		{
			"paused until an instant",
			func(i *queue.Info) { i.Pause = queue.Pause{Since: i.Now, Until: i.Now.Add(60 * time.Millisecond)} },
			expires("", 1, 0.05, 0.1, 0.2),
			Expiring{1, true, false},
			Expiring{2, true, false},
		},
		{
			"something is in flight", func(i *queue.Info) { i.Leased = 1 }, expires("", 1, 0, 0.05),
			Expiring{1, false, false},
			Expiring{1, false, false},
		},
		{
			"a child", func(i *queue.Info) { i.Parent = &queue.Info{} }, expires("", 1, 0, 0.05),
			Expiring{1, false, false},
			Expiring{1, false, false},
		},
		{
			"a parent", func(i *queue.Info) { i.Group.Children = 1 }, expires("", 1, 0, 0.05),
			Expiring{1, false, false},
			Expiring{1, false, false},
		},
		{
			"limits beside the rate", func(i *queue.Info) { i.Spec.Limits = make([]queue.Limit, 1) }, expires("", 1, 0, 0.05),
			Expiring{1, false, false},
			Expiring{1, false, false},
		},
		{
			"a further pace", limits("2/s"), expires("", 1, 0, 0.6, 0.9),
			Expiring{1, false, false},
			Expiring{2, false, false},
		},
		{
			"a quota that is used up", all(limits("5/m"), uses(5)), expires("", 1, 0, 54, 56),
			Expiring{1, false, false},
			Expiring{1, false, false},
		},
		{
			"a slower parent", all(waits(3, 1), child(queue.GroupInfo{Members: 1, Weight: 1, Waiting: 3})),
			expires("", 1, 0, 0.5, 1.5),
			Expiring{1, false, false},
			Expiring{1, false, false},
		},
		{
			"turns with siblings", all(waits(3, 1), child(queue.GroupInfo{Members: 3, Weight: 3, Waiting: 90})),
			expires("", 1, 1, 1.5, 9),
			Expiring{2, false, false},
			Expiring{2, false, false},
		},
		{
			// not behind all of a
			"lanes take turns", none, append(expires("a", 1, 0, 0, 0, 0, 0, 0), expires("b", 1, 0.15, 0.15)...),
			Expiring{1, false, false},
			Expiring{2, false, false},
		},
		{
			"a lane's rate", func(i *queue.Info) { i.Spec.Lanes.Rate = leaky.PerSecond(2) },
			append(expires("a", 1, 0.4, 0.4, 0.6, 0.6), expires("", 1, 0.5, 0.5)...),
			Expiring{2, false, false}, // a: at 0, then at 0.5, too late for one and the last
			Expiring{5, false, false},
		},
	} {
		i := quoted(tt.info)
		b, err := ReadBacklog(t.Context(), &listed{jobs: tt.jobs, page: 2}, "q")
		if err != nil {
			t.Fatal(err)
		}
		now, then, err := Request{Rate: &slow}.Expiring(i, &b)
		if err != nil || now != tt.now || then != tt.then {
			t.Errorf("%s: %+v %+v, %v; want %+v %+v", tt.what, now, then, err, tt.now, tt.then)
		}
		if alone, same, err := (Request{Jobs: 1}).Expiring(i, &b); err != nil || alone != now || same != now {
			t.Errorf("%s: without another rate %+v %+v, %v", tt.what, alone, same, err)
		}
	}
}

func TestExpiringIsBounded(t *testing.T) {
	many := &listed{jobs: make([]queue.JobInfo, MaxBacklog+1), page: queue.MaxPage}
	for i := range many.jobs {
		many.jobs[i] = queue.JobInfo{Cost: leaky.MaxCost, ExpiresAt: quoteNow.Add(time.Second)}
	}
	b, err := ReadBacklog(t.Context(), many, "q")
	if err != nil || len(b.jobs) != MaxBacklog || many.asked != MaxBacklog/queue.MaxPage {
		t.Fatalf("%d jobs in %d calls, %v", len(b.jobs), many.asked, err)
	}
	// The slowest there is, longer than time itself.
	slowest, err := leaky.ParseRate("1/744h")
	if err != nil {
		t.Fatal(err)
	}
	now, then, err := Request{Rate: &slowest}.Expiring(quoted(func(*queue.Info) {}), &b)
	if want := (Expiring{MaxBacklog - 1, false, true}); err != nil || now != want || then != want {
		t.Errorf("%+v %+v, %v", now, then, err)
	}
	for i := range many.jobs {
		many.jobs[i].ExpiresAt = time.Time{}
	}
	many.jobs[MaxBacklog-1].ExpiresAt = quoteNow.Add(100 * 365 * 24 * time.Hour)
	if b, err = ReadBacklog(t.Context(), many, "q"); err != nil {
		t.Fatal(err)
	}
	if _, then, err := (Request{Rate: &slowest}).Expiring(quoted(func(*queue.Info) {}), &b); err != nil ||
		then.Jobs != 1 {
		t.Errorf("behind centuries: %+v, %v", then, err)
	}

	many.jobs = many.jobs[:MaxBacklog]
	if b, err := ReadBacklog(t.Context(), many, "q"); err != nil || b.more || len(b.jobs) != MaxBacklog {
		t.Errorf("exactly as many: %d, %v, %v", len(b.jobs), b.more, err)
	}
	// pages without jobs, and no end
	if b, err := ReadBacklog(t.Context(), &listed{jobs: many.jobs[:1]}, "q"); err != nil || !b.more {
		t.Errorf("%+v, %v", b, err)
	}
	gone := &listed{fail: queue.ErrUnknownQueue}
	if _, err := ReadBacklog(t.Context(), gone, "q"); !errors.Is(err, queue.ErrUnknownQueue) {
		t.Error(err)
	}
	var field *invalid.Error
	if _, _, err := (Request{Rate: &slowest}).Expiring(
		quoted(func(i *queue.Info) { i.Spec.Burst = 100 }), &b,
	); !errors.As(err, &field) ||

		field.Field != "rate" {
		t.Errorf("%v, want an error of the rate", err)
	}
}
