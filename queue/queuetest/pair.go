package queuetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
)

func (p *pair) put(s queue.Spec) {
	p.putBoth(s, rapid.IntRange(-1, len(p.revs[0])).Draw(p.T, "expect"))
}

// putBoth puts a spec. It expects any revision (-1), none (0), or the nth that was given out.
func (p *pair) putBoth(s queue.Spec, which int) {
	var got [2]int64
	p.both(fmt.Sprintf("put %s %s %s burst %d capacity %d bytes %d lease %v attempts %d deadline %v on unknown %q "+
		"retention %+v overflow %s %+v %s expecting %d", s.Name, s.Rate, s.Adapt, s.Burst, s.Capacity, s.MaxBytes,
		s.Lease, s.Retry.MaxAttempts, s.Retry.Deadline, s.OnUnknown, s.Retention, s.Overflow, s.Deferred, rulesOf(s),
		which), func(side int, e queue.Engine) string {
		expect := int64(which)
		if which > 0 {
			expect = p.revs[side][which-1]
		}
		res, err := e.Put(p.ctx, s, expect)
		got[side] = res.Revision
		return fmt.Sprintf("%v created %v changed %v", kind(err), res.Created, res.Changed)
	})
	p.revision(got)
}

// revision checks that two revisions correspond.
func (p *pair) revision(got [2]int64) {
	p.Helper()
	p.corresponds(&p.revs, got)
}

func (p *pair) corresponds(known *[2][]int64, got [2]int64) {
	p.Helper()
	i, j := slices.Index(known[0], got[0]), slices.Index(known[1], got[1])
	if i != j || (got[0] == 0) != (got[1] == 0) {
		p.Fatalf("revisions %d and %d do not correspond", got[0], got[1])
	}
	if i < 0 && got[0] != 0 {
		known[0], known[1] = append(known[0], got[0]), append(known[1], got[1])
	}
}

// someJobs draws jobs, including an odd one now and then.
func (p *pair) someJobs() []queue.Job {
	var list []queue.Job
	for range rapid.IntRange(1, 6).Draw(p.T, "jobs") {
		j := job(p.queueName(), p.id())
		// The same for the same id.
		j.Payload = append(j.Payload, make([]byte, len(j.ID)%3*int(j.ID[len(j.ID)-1]-'0')*80)...)
		j.Cost = rapid.Int64Range(0, 3).Draw(p.T, "cost")
		switch rapid.IntRange(0, 30).Draw(p.T, "oddity") {
		case 30:
			j.Payload = []byte("another")
		case 29:
			j.ContentType = "text/plain"
		case 28:
			j.ID = "not valid"
		case 27:
			j.Queue = "g.nobody"
		case 26:
			j.Cost = -1
		}
		j.Overflow = rapid.SampledFrom([]string{"", queue.Defer, queue.Reject}).Draw(p.T, "overflow")
		j.Limited = rapid.SampledFrom([]time.Duration{
			0, 0, 0, 0, 0, 0, 0, 0, time.Nanosecond, 20 * time.Second,
		}).Draw(p.T, "limited")
		if in := rapid.SampledFrom([]int{
			-1, -1, -1, -1, 0, 50, 100, 300, 1000, 3000, 10_000, 60_000,
		}).Draw(p.T, "expires in ms"); in >= 0 {
			j.ExpiresAt = p.clock.Now().Time().Add(time.Duration(in) * time.Millisecond)
		}
		p.inSomeLane(&j)
		if p.ruled && rapid.Bool().Draw(p.T, "header") {
			j.Headers = map[string]string{"X": rapid.SampledFrom([]string{"a", "x", ""}).Draw(p.T, "x")}
		}
		list = append(list, j)
	}
	if p.ruled { // the others see what one takes from a rule of the group
		list = slices.DeleteFunc(list, func(j queue.Job) bool { return j.Queue != list[0].Queue })
	}
	// The contract leaves open in which order jobs of several queues are decided.
	slices.SortStableFunc(list, func(a, b queue.Job) int { return strings.Compare(a.Queue, b.Queue) })
	return list
}

func (p *pair) append() {
	list := p.someJobs()
	p.appendBoth("append", list, func(e queue.Engine) ([]queue.Appended, error) { return e.Append(p.ctx, list) })
}

// appendBoth appends jobs to both engines and keeps the books.
func (p *pair) appendBoth(
	what string, list []queue.Job, do func(e queue.Engine) ([]queue.Appended, error),
) (answers [2][]queue.Appended) {
	var text []string
	for _, j := range list {
		text = append(
			text,
			fmt.Sprintf(
				"%s/%s cost %d %s limited %v until %s %s", j.Queue, j.ID, j.Cost, j.Overflow, j.Limited,
				micro(j.ExpiresAt), place(j),
			),
		)
	}
	p.both(what+" "+strings.Join(text, ", "), func(side int, e queue.Engine) string {
		out, err := do(e)
		answers[side] = out
		if err != nil && kind(err)[0] != 'f' { // an engine may return the only job's error
			return kind(err)
		}
		var b strings.Builder
		for _, a := range out {
			fmt.Fprintf(&b, "\n  %s %v %v at %d eta %s %v retry %v %+v ticket %v as of %s %s", a.ID, a.Outcome, a.State,
				a.Position, micro(a.ETA.At), a.ETA.Exact, retryOf(&a), a.Bytes,
				a.Ticket != "", micro(a.At), ruledText(a.Rules))
			if a.Outcome == queue.Invalid {
				b.WriteString(" " + kind(a.Err))
			}
		}
		return b.String()
	})
	for i, a := range answers[0] {
		switch a.Outcome {
		case queue.Accepted:
			p.counts[list[i].Queue].entered++
		case queue.SetAside:
			p.counts[list[i].Queue].aside++
		}
	}
	return answers
}

func (p *pair) reserve() {
	p.reserveAs(rapid.SampledFrom(p.clients).Draw(p.T, "client"), rapid.IntRange(1, 8).Draw(p.T, "max"))
}

func (p *pair) reserveAs(client string, most int) int {
	p.numbers[client]++
	req := queue.ReserveRequest{
		Client: queue.Client{ID: client, Name: client, Version: "1"}, Number: p.numbers[client], Max: most,
		Latest: p.latest,
	}
	p.drawDistance(&req)
	if rapid.IntRange(0, 2).Draw(p.T, "shared") == 0 {
		req.Shares = rapid.MapOfN(rapid.SampledFrom(pairQueues), rapid.IntRange(0, 2), 0, 3).Draw(p.T, "shares")
	}
	twins := p.request("reserve", req, true)
	req.Latest = time.Time{} // a repeated request knows nothing of the clock
	p.grants[client] = &request{req, twins}
	p.twins = append(p.twins, twins...)
	return len(twins)
}

// drawDistance sometimes makes a request that of a distant client. An uncertain drainer is granted nothing while
// another one watches, and the engines may disagree about the watcher.
func (p *pair) drawDistance(r *queue.ReserveRequest) {
	if !p.latest.IsZero() { // from a client that knows the clock well
		return
	}
	r.Lead = rapid.SampledFrom([]time.Duration{
		0, 0, 0, 0, time.Millisecond, 20 * time.Millisecond, time.Second,
	}).Draw(p.T, "lead")
	if len(p.clients) > 1 && r.Queue == "" {
		return
	}
	r.Uncertainty = rapid.SampledFrom([]time.Duration{
		0, 0, 0, 0, 0, 3 * time.Millisecond, 40 * time.Millisecond,
	}).Draw(p.T, "uncertainty")
}

// request sends a request to both engines. sleep says whether to compare the advice too.
func (p *pair) request(what string, req queue.ReserveRequest, sleep bool) []leasePair {
	var got [2]queue.Reserved
	p.both(fmt.Sprintf(
		"%s %s #%d up to %d, shares %v, lead %v, uncertainty %v", what, req.Client.ID, req.Number, req.Max, req.Shares,
		req.Lead, req.Uncertainty,
	), func(side int, e queue.Engine) string {
		q := req
		q.Partition = partition(nil, e, "g")
		res, err := e.Reserve(p.ctx, q)
		got[side] = res
		p.refused = err != nil
		var b strings.Builder
		b.WriteString(kind(err))
		for _, v := range res.Jobs {
			fmt.Fprintf(&b, "\n  %s/%s in %v lease %v attempt %d appended %s, %v ago, %s %s cost %d %s", v.Queue, v.ID,
				v.In, v.Lease, v.Attempt, micro(v.AppendedAt), v.Age,
				v.Payload, v.ContentType, v.Cost, place(v.Job))
		}
		slices.Sort(res.Expired) // leases that expire at once have no order
		fmt.Fprintf(&b, "\n  now %s expired %v lost %v", micro(res.Now), res.Expired, res.Lost)
		if what == "reserve" {
			fmt.Fprintf(&b, " short %v", res.Short)
		}
		if sleep {
			fmt.Fprintf(&b, " backup %v more %v", res.Backup, res.Next == 0)
		}
		// A lone client watches and is told the exact time, others a rough time. The contract leaves open whether it
		// looks when the lease of a deleted queue runs out, or at a due time from before the clock was set.
		if sleep && (len(p.clients) == 1 || req.Queue != "") && !p.deleted && !p.jumped {
			fmt.Fprintf(&b, " next %v", res.Next)
		}
		return strings.ReplaceAll(b.String(), "map[]", "none")
	})
	var twins []leasePair
	for i := range got[0].Jobs {
		t := leasePair{got[0].Jobs[i], got[1].Jobs[i]}
		p.revision([2]int64{t.a.Revision, t.b.Revision})
		twins = append(twins, t)
		p.counts[t.a.Queue].granted[t.a.Fence] = true
	}
	return twins
}

// replay repeats a client's last request, even if nothing was granted or it has been overtaken.
func (p *pair) replay() {
	client := rapid.SampledFrom(p.clients).Draw(p.T, "client")
	if rapid.IntRange(0, 3).Draw(p.T, "of a pull queue") == 0 {
		client += "-" + pairPull
	}
	last := p.grants[client]
	if last == nil {
		return
	}
	req := last.req
	if req.Number > 1 && rapid.IntRange(0, 3).Draw(p.T, "overtaken") == 0 {
		req.Number--
		if got := p.request("overtaken", req, false); len(got) > 0 {
			p.Fatalf("an overtaken request was granted %d jobs", len(got))
		}
		return
	}
	for _, t := range p.request("again", req, false) {
		same := func(o leasePair) bool { return o.a.Fence == t.a.Fence && o.b.Fence == t.b.Fence }
		if !slices.ContainsFunc(last.twins, same) {
			p.Fatalf("granted %s/%s anew", t.a.Queue, t.a.ID)
		}
	}
}

// pick draws leases, recent ones rather than old ones.
func (p *pair) pick(label string) []leasePair {
	var list []leasePair
	if len(p.twins) == 0 {
		return nil
	}
	for range rapid.IntRange(1, 4).Draw(p.T, label) {
		back := rapid.IntRange(0, min(len(p.twins)-1, 9)).Draw(p.T, "back")
		list = append(list, p.twins[len(p.twins)-1-back])
	}
	return list
}

// pairVerdicts are the verdicts to draw from.
var pairVerdicts = []queue.Verdict{
	queue.Deliver, queue.Deliver, queue.Fail, queue.Fail, queue.Bury, queue.Release, queue.Hold, queue.Hold,
	queue.Throttle, queue.Down,
}

func (p *pair) settle() {
	list := p.pick("settlements")
	if list == nil {
		return
	}
	var sides [2][]queue.Settlement
	var text []string
	for _, t := range list {
		verdict := rapid.SampledFrom(pairVerdicts).Draw(p.T, "verdict")
		untold := verdict == queue.Throttle && rapid.Bool().Draw(p.T, "untold")
		noTarget := verdict == queue.Throttle && rapid.IntRange(0, 3).Draw(p.T, "no target") == 0
		unused := verdict == queue.Down && rapid.Bool().Draw(p.T, "unused")
		laneOnly, trouble := rapid.Bool().Draw(p.T, "lane only"), rapid.Bool().Draw(p.T, "trouble")
		after := time.Duration(rapid.SampledFrom([]int{0, 1, 100, 1000, 90_000}).Draw(p.T, "after")) * time.Millisecond
		if verdict == queue.Deliver && rapid.IntRange(0, 7).Draw(p.T, "spared") > 0 {
			after = 0 // or little would leave
		}
		for side, v := range []queue.Reservation{t.a, t.b} {
			s := settlement(verdict, v)
			s.After, s.Reason, s.LaneOnly, s.Trouble, s.Untold, s.Unused = after, "it failed", laneOnly, trouble,
				untold, unused
			s.NoTarget = noTarget
			sides[side] = append(sides[side], s)
		}
		text = append(
			text,
			fmt.Sprintf(
				"%v %s/%s (attempt %d) after %v, lane only %v, trouble %v, untold %v, unused %v, no target %v", verdict, t.a.Queue,
				t.a.ID, t.a.Attempt, after, laneOnly, trouble, untold, unused, noTarget,
			),
		)
	}
	p.settleBoth(strings.Join(text, ", "), sides)
}

func (p *pair) settleBoth(what string, sides [2][]queue.Settlement) {
	var answers []queue.Settled
	p.both("settle "+what, func(side int, e queue.Engine) string {
		out, err := e.Settle(p.ctx, sides[side])
		if side == 0 {
			answers = out
		}
		text := kind(err)
		for _, s := range out {
			text += fmt.Sprintf(" %v stale %v %+v %v,", s.State, s.Stale, s.Effect, kind(s.Err))
		}
		return text
	})
	for i, a := range answers {
		if s := sides[0][i]; a.Err == nil && !a.Stale {
			if b := p.counts[s.Queue]; !b.granted[s.Fence] {
				p.Fatalf("%s/%s was settled by a fence of a deleted queue", s.Queue, s.ID)
			} else {
				b.settled[s.Fence] = true
			}
		}
	}
}

func (p *pair) extend() {
	list := p.pick("leases")
	if list == nil {
		return
	}
	var text []string
	for _, t := range list {
		text = append(text, t.a.Queue+"/"+t.a.ID)
	}
	p.both("extend "+strings.Join(text, ", "), func(side int, e queue.Engine) string {
		var leases []queue.Lease
		for _, t := range list {
			leases = append(leases, lease([]queue.Reservation{t.a, t.b}[side]))
		}
		out, err := e.Extend(p.ctx, leases)
		return fmt.Sprint(out, kind(err))
	})
}

func (p *pair) pause() {
	q := p.queueName()
	pause := queue.Pause{Reason: rapid.SampledFrom([]string{"because", "why not"}).Draw(p.T, "reason")}
	if us := rapid.SampledFrom([]int64{-1, 0, 1, 100_000, 1_000_000, 60_000_000}).Draw(p.T, "pause"); us >= 0 {
		// Later than the limit however far the engines' clocks are ahead.
		pause.Until = p.clock.Now().Add(time.Duration(us) * time.Microsecond).Time()
	}
	ctx := audit.WithActor(p.ctx, audit.Actor{
		Name: rapid.SampledFrom([]string{"", "token:1"}).Draw(p.T, "name"),
		Note: rapid.SampledFrom([]string{"ann", "bob"}).Draw(p.T, "by"),
	})
	p.both(
		fmt.Sprintf("pause %s %+v", q, pause),
		func(_ int, e queue.Engine) string { return kind(e.Pause(ctx, q, pause)) },
	)
}

func (p *pair) resume() {
	q := p.queueName()
	p.both("resume "+q, func(_ int, e queue.Engine) string { return kind(e.Resume(p.ctx, q)) })
}

// delete deletes a queue, and usually makes it again.
func (p *pair) delete() {
	p.deleted = true
	q, force := p.queueName(), rapid.Bool().Draw(p.T, "force")
	p.deleteBoth(q, force)
	if rapid.IntRange(0, 3).Draw(p.T, "made again") < 3 {
		p.putBoth(p.spec(q), queue.AnyRevision)
	}
}

// sweep runs both sweepers to the end. How much they sweep may differ.
func (p *pair) sweep() {
	p.both("sweep", func(_ int, e queue.Engine) string {
		for range 1000 {
			if more, err := e.Sweep(p.ctx, partition(nil, e, "g")); !more || err != nil {
				return kind(err)
			}
		}
		return "the sweeper never ends"
	})
}

func (p *pair) advance() {
	us := rapid.OneOf(
		rapid.Int64Range(0, 1000),
		rapid.Int64Range(0, 150_000),
		rapid.SampledFrom([]int64{25_000, 50_000, 100_000, 1_000_000, 10_000_000, 30_000_001, 60_000_000}),
		rapid.Int64Range(0, 5_000_000),
	).Draw(p.T, "microseconds")
	p.clock.Advance(min(time.Duration(us)*time.Microsecond, p.patience()))
}

func (p *pair) backwards() {
	p.kept()
	p.info("g.keep")
	back := time.Duration(rapid.Int64Range(0, 3600_000_000).Draw(p.T, "microseconds back")) * time.Microsecond
	p.clock.Advance(-back)
	p.ahead, p.jumped = p.ahead+back, true
	p.info("g.keep")
}

// forwards lets the wall clock jump ahead while a client vouches. Afterwards no client vouches for so long that the
// engines believe the wall clock again.
func (p *pair) forwards() {
	if p.patience() < 7*time.Second {
		return
	}
	p.kept()
	p.info("g.keep")
	p.latest = p.now()
	by := time.Duration(rapid.Int64Range(600_000, 7200_000_000).Draw(p.T, "microseconds ahead")) * time.Microsecond
	p.clock.Advance(by)
	p.ahead, p.jumped = p.ahead-by, true
	p.reserve()
	p.latest = time.Time{}
	for range 2 {
		p.clock.Advance(3*time.Second + time.Microsecond)
		p.info("g.keep")
	}
}
