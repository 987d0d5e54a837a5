package queuetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

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
	p.grants[client] = &request{req, twins, p.enginesNow()}
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
			fmt.Fprintf(&b, "\n  %s/%s in %v lease %v attempt %d appended %s, %v ago, %s %s cost %d %v %s", v.Queue, v.ID,
				v.In, v.Lease, v.Attempt, micro(v.AppendedAt), v.Age,
				v.Payload, v.ContentType, v.Cost, v.Costs, place(v.Job))
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

// enginesNow returns the time of the engines' clocks, which never run back.
func (p *pair) enginesNow() leaky.Instant { return p.clock.Now().Add(p.ahead) }

// remembered is for how long engines surely remember a client that is silent, and so its last request.
const remembered = 10 * time.Minute

// replay repeats a client's last request, even if nothing was granted or it has been overtaken.
func (p *pair) replay() {
	client := rapid.SampledFrom(p.clients).Draw(p.T, "client")
	if rapid.IntRange(0, 3).Draw(p.T, "of a pull queue") == 0 {
		client += "-" + rapid.SampledFrom([]string{pairPull, pairPullChild}).Draw(p.T, "which")
	}
	last := p.grants[client]
	if last == nil || p.enginesNow().Sub(last.at) > remembered {
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
		budget, actual := p.budget(), p.costs("actual")
		for side, v := range []queue.Reservation{t.a, t.b} {
			s := settlement(verdict, v)
			s.Budget, s.Actual = budget, actual
			s.After, s.Reason, s.LaneOnly, s.Trouble, s.Untold, s.Unused = after, "it failed", laneOnly, trouble,
				untold, unused
			s.NoTarget = noTarget
			sides[side] = append(sides[side], s)
		}
		text = append(
			text,
			fmt.Sprintf(
				"%v %s/%s (attempt %d) after %v, lane only %v, trouble %v, untold %v, unused %v, no target %v, budget %v, "+
					"actual %v",
				verdict, t.a.Queue, t.a.ID, t.a.Attempt, after, laneOnly, trouble, untold, unused, noTarget, budget, actual,
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
		if strings.HasPrefix(text, "field") { // an engine may return the error if there is no other answer
			text = "ok"
		}
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

func (p *pair) throttle() {
	q, after := p.queueName(), rapid.SampledFrom([]time.Duration{
		0, time.Microsecond, time.Second, 10 * time.Second, 2 * queue.MaxStop,
	}).Draw(p.T, "after")
	p.both(fmt.Sprint("throttle ", q, " for ", after), func(_ int, e queue.Engine) string {
		until, err := e.Throttle(p.ctx, q, after, "it asked")
		return micro(until) + " " + kind(err)
	})
}

// pairPull is usually a pull queue. Its name puts it on the partition of the others, whatever the number of partitions.
const pairPull = "pull5"

// pairPullChild is a pull queue half of the time.
const pairPullChild = "g.b"

// somePull draws whether a queue is a pull queue.
func (p *pair) somePull(name string) bool {
	n := rapid.IntRange(0, 19).Draw(p.T, "pull")
	return n == 19 && name != "g.keep" || name == pairPull && n > 3 || name == pairPullChild && n > 9
}

func (p *pair) pull() {
	name := pairPull
	switch n := rapid.IntRange(0, 9).Draw(p.T, "another"); {
	case n > 8:
		name = p.queueName()
	case n > 3:
		name = pairPullChild
	}
	p.pullAs(rapid.SampledFrom(p.clients).Draw(p.T, "client"), name, rapid.IntRange(1, 8).Draw(p.T, "max"))
}

func (p *pair) pullAs(client, name string, most int) int {
	client += "-" + name
	p.numbers[client]++
	req := queue.ReserveRequest{
		Client: queue.Client{ID: client, Name: client, Version: "1"}, Number: p.numbers[client], Max: most, Queue: name,
	}
	p.drawDistance(&req)
	twins := p.request("pull "+name+" by", req, true)
	if !p.refused { // a refused request cannot be repeated
		p.grants[client] = &request{req, twins, p.enginesNow()}
	}
	p.twins = append(p.twins, twins...)
	return len(twins)
}

// pullAll reserves and delivers the jobs of pull queues.
func (p *pair) pullAll() (n int) {
	for _, q := range pairQueues {
		if i, err := p.engines[0].Get(p.ctx, q); err == nil && i.Spec.Pull {
			n += p.pullAs(p.clients[0], q, 100)
		}
	}
	return n
}

// budget draws what a receiver says that it still accepts; mostly nothing.
func (p *pair) budget() (b queue.Budget) {
	if rapid.IntRange(0, 2).Draw(p.T, "budget") > 0 {
		return b
	}
	b.Remaining = rapid.SampledFrom([]int64{0, 1, 3, 20, 1000, queue.MaxRemaining, 1 << 60}).Draw(p.T, "remaining")
	b.Reset = rapid.SampledFrom([]time.Duration{
		time.Microsecond, 999 * time.Microsecond, time.Second, 7*time.Second + time.Microsecond,
	}).Draw(p.T, "reset")
	return b
}
