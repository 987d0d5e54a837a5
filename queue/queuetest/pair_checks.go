package queuetest

import (
	"fmt"

	"pgregory.net/rapid"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/quote"
)

// look reads something at random.
func (p *pair) look() {
	if rapid.Bool().Draw(p.T, "one queue") {
		p.info(p.queueName())
		return
	}
	p.jobInfo(p.queueName(), p.id())
	p.quote(p.queueName())
	p.changes(queue.OfQueue, p.queueName())
}

// quote asks for a quote of jobs in a lane, and of another rate.
func (p *pair) quote(q string) {
	ask := quote.Request{
		Jobs: rapid.Int64Range(1, 20).Draw(p.T, "quoted"), Cost: rapid.Int64Range(1, 3).Draw(p.T, "quoted cost"),
		Lane: rapid.SampledFrom(append([]string{"", "\xff"}, pairLanes...)).Draw(p.T, "quoted lane"),
	}
	other := laneRate(rapid.SampledFrom([]string{"unlimited", "5/s", "1/m"}).Draw(p.T, "quoted rate")).Rate
	ask.Rate = &other
	p.both(fmt.Sprintf("quote %s %+v", q, ask), func(_ int, e queue.Engine) string {
		i, lane, err := e.Lane(p.ctx, q, ask.Lane)
		if err != nil {
			return kind(err)
		}
		answer, err := ask.Quote(&i, &lane)
		if err != nil {
			return kind(err)
		}
		backlog, err := quote.ReadBacklog(p.ctx, e, q)
		if err != nil {
			return kind(err)
		}
		now, then, err := ask.Expiring(&i, &backlog)
		return fmt.Sprintf("%s; %+v %+v %v; drained %s, %s to %s, drained %s; lane %d of %d, %d bytes, stops until "+
			"%s", quoted(answer), now, then, err, micro(answer.Now.Drained), micro(answer.Then.First),
			micro(answer.Then.Last),
			micro(answer.Then.Drained), lane.Waiting, lane.Held, lane.Bytes, micro(lane.Stop))
	})
}

func (p *pair) jobInfo(q, id string) {
	p.both("job "+q+"/"+id, func(_ int, e queue.Engine) string {
		i, err := e.Job(p.ctx, q, id)
		if err != nil {
			return kind(err)
		}
		where := ""
		if i.State != queue.Deferred && (i.State == queue.Dead || !i.State.Ended()) { // the other states keep no record
			where = fmt.Sprintf("lane %q priority %d until %s ", i.Lane, i.Priority, micro(i.ExpiresAt))
		}
		return where + fmt.Sprintf("%v at %d eta %s %v cost %d attempts %d appended %s due %s held %s ended %s %q "+
			"why %s %s %q %s %s", i.State, i.Position, micro(i.ETA.At), i.ETA.Exact, i.Cost,
			i.Attempts, micro(i.AppendedAt), micro(i.DueAt), micro(i.HeldAt), micro(i.EndedAt), i.Reason,
			i.Why.By, micro(i.Why.Until), i.Why.Reason, i.Why.Queue, i.Why.Who+" "+i.Why.Note) + timelineText(i.Timeline)
	})
}

func (p *pair) info(q string) {
	var got [2]queue.Info
	p.both("get "+q, func(side int, e queue.Engine) string {
		i, err := e.Get(p.ctx, q)
		got[side] = i
		if err != nil {
			return kind(err)
		}
		return p.describe(i)
	})
	p.revision([2]int64{got[0].Revision, got[1].Revision})
}
