package queuetest

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/internal/series"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/quote"
)

// look reads something at random.
func (p *pair) look() {
	if rapid.Bool().Draw(p.T, "one queue") {
		p.info(p.queueName())
		p.compareBatches(p.queueName())
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
		lineup, err := e.Lineup(p.ctx, q)
		if err != nil {
			return kind(err)
		}
		answer, err := ask.Quote(&lineup, &lane)
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
			micro(answer.Then.Drained), lane.Waiting, lane.Size, lane.Bytes, micro(lane.Stop))
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
			where = fmt.Sprintf("lane %q batch %q priority %d until %s %v ", i.Lane, i.Batch, i.Priority, micro(i.ExpiresAt),
				i.Costs)
		}
		return where + fmt.Sprintf("%v at %d eta %s %v cost %d attempts %d appended %s due %s held %s ended %s %q "+
			"why %s %s %q %s %s", i.State, i.Position, estimate(i.ETA.At), i.ETA.Exact, i.Cost,
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

// answerCounts has the counts of one queue, according to the engines' answers since it was made.
type answerCounts struct {
	entered     int64 // accepted, and returned
	aside       int64
	withdrawn   int64
	returned    int64
	replayed    int64
	missing     int64
	backOnes    int64 // records that ended because the job came back or was dealt with
	deadOutside int64 // died on the overflow
	cancelled   int64 // while they were deferred
	granted     map[queue.Fence]bool
	settled     map[queue.Fence]bool // the granted leases whose settlement was accepted
}

func newAnswerCounts() *answerCounts {
	return &answerCounts{granted: map[queue.Fence]bool{}, settled: map[queue.Fence]bool{}}
}

// recorded returns the number of jobs recorded as deferred.
func (b *answerCounts) recorded() int64 {
	return b.aside - b.withdrawn - b.missing - b.backOnes - b.cancelled
}

// balance checks invariant 5 on one engine: every accepted job is in exactly one state, in listings as in counts, and
// left once for each lease, which ended once. The other engine gave the same answers.
func (p *pair) balance() {
	p.Helper()
	e := p.engines[0]
	deferred := int64(0)
	for _, q := range pairQueues {
		b := p.counts[q]
		i, err := e.Get(p.ctx, q)
		if err != nil {
			continue
		}
		deferred += b.recorded()
		must := func(what string, got, want int64) {
			p.Helper()
			if got != want {
				p.Fatalf("%s: %s: %d, want %d\n%+v\nby the answers: %+v", q, what, got, want, i, *b)
			}
		}
		must("entered", i.Appended, b.entered)
		must("set aside", i.SetAside, b.aside-b.withdrawn)
		must("returned", i.Returned, b.returned)
		must("replayed", i.Replayed, b.replayed)
		must("given up", i.Missing, b.missing)
		must(
			"in one state each",
			i.Waiting+i.Scheduled+i.Leased+i.Held+i.Delivered+i.TimedOut+(i.Died-b.deadOutside)+(i.Cancelled-b.cancelled),
			b.entered+b.replayed,
		)
		must("leases", int64(len(b.settled))+i.Expired+i.Leased, int64(len(b.granted)))
		count := map[queue.State]int64{}
		for id := range 31 {
			if j, err := e.Job(p.ctx, q, fmt.Sprint("j", id)); err == nil {
				count[j.State]++
			}
		}
		must("waiting", count[queue.Waiting], i.Waiting)
		must("scheduled", count[queue.Scheduled], i.Scheduled)
		must("held", count[queue.Held], i.Held)
		must("leased", count[queue.Leased], i.Leased)
		if count[queue.Deferred] > b.recorded() {
			must("deferred", count[queue.Deferred], b.recorded())
		}
	}
	if t, err := e.Totals(p.ctx); err != nil || t.Deferred != deferred {
		p.Fatalf("totals: %+v, %v; %d are deferred", t, err, deferred)
	}
}

// long is a text of two-byte characters that is too long for the audit log.
var long = strings.Repeat("ü", audit.MaxTextBytes)

// putDocument writes or deletes a document, which both engines have or neither.
func (p *pair) putDocument() {
	d := doc(
		rapid.SampledFrom([]string{"app", "token", "token", "No"}).Draw(p.T, "kind"),
		rapid.SampledFrom([]string{"a", "b", "a:b"}).Draw(p.T, "document"),
		rapid.SampledFrom([]string{"", `1`, `{"n": 2}`, `{"n": 2}`, "{\n}", `"` + long + `é!"`, `"` + long + `ê!"`}).
			Draw(p.T, "text"),
	)
	which := rapid.IntRange(-1, len(p.documentRevs[0])).Draw(p.T, "expect")
	ctx := audit.WithActor(p.ctx, audit.Actor{
		Name: "token:1", App: rapid.SampledFrom([]string{"", "acme", "beta"}).Draw(p.T, "app"), Note: "ann", Request: "r",
	})
	var got [2]int64
	p.both(fmt.Sprintf("put document %s %s %s expecting %d", d.Kind, d.Name, d.Text, which),
		func(side int, e queue.Engine) string {
			expect := int64(which)
			if which > 0 {
				expect = p.documentRevs[side][which-1]
			}
			var err error
			got[side], err = e.PutDocument(ctx, d, expect)
			return kind(err)
		})
	p.corresponds(&p.documentRevs, got)
}

// putSample adds a sample, which both engines add or neither.
func (p *pair) putSample() {
	s := series.Sample{
		Series: rapid.Uint8Range(0, 1).Draw(p.T, "series"), Number: rapid.Int64Range(0, 20).Draw(p.T, "number"),
		Data: []byte(rapid.SampledFrom([]string{"", "a", "\x00b"}).Draw(p.T, "data")),
	}
	keep := rapid.Int64Range(0, 5).Draw(p.T, "keep")
	p.both(fmt.Sprintf("put sample %+v keeping %d", s, keep), func(_ int, e queue.Engine) string {
		added, err := e.PutSample(p.ctx, s, keep)
		return fmt.Sprint(added, " ", kind(err))
	})
}

// samples compares all samples.
func (p *pair) samples() {
	p.both("samples", func(_ int, e queue.Engine) (text string) {
		for of := range uint8(2) {
			some, err := samplesOf(p.ctx, e, of, 0)
			text += fmt.Sprintf("%+v %s\n", some, kind(err))
		}
		return text
	})
}

// record records a refusal.
func (p *pair) record() {
	entry := audit.Entry{
		Actor: audit.Actor{Address: "192.0.2.1"}, Of: rapid.SampledFrom([]string{"queue", "app", "."}).Draw(p.T, "of"),
		Name: "x", What: changekind.Refused, Refused: "forbidden", Times: rapid.Int64Range(0, 3).Draw(p.T, "times"),
	}
	p.both(fmt.Sprintf("record %+v", entry), func(_ int, e queue.Engine) string { return kind(e.Record(p.ctx, entry)) })
}

// documents compares all documents, in the order of their last writes.
func (p *pair) documents() {
	p.both("documents", func(_ int, e queue.Engine) (text string) {
		page, err := e.DocumentsSince(p.ctx, 0, document.MaxPage)
		for _, d := range page.Documents {
			text += fmt.Sprintf("\n  %s %s %s", d.Kind, d.Name, d.Text)
			one, err := e.Document(p.ctx, d.Kind, d.Name)
			text += fmt.Sprintf(", alone %s %s %v", kind(err), one.Text, one.Revision == d.Revision)
		}
		return kind(err) + text
	})
}

// audit verifies the audit logs and compares their entries. Entries of queues and rules are all in one partition, the
// other entries in the first. An engine's partitions have separate clocks, so the times of the latter are left out, as
// are revisions.
func (p *pair) audit() {
	p.both("audit", func(_ int, e queue.Engine) string {
		of := partition(nil, e, "g")
		text := p.auditedIn(e, of, func(a *audit.Entry) bool { return a.Refused == "" && isSubject(a.Of) }, true)
		return text + p.auditedIn(e, 0, func(a *audit.Entry) bool { return a.Refused != "" || !isSubject(a.Of) }, false)
	})
}

func isSubject(of string) bool { return of == string(queue.OfQueue) || of == string(queue.OfRule) }

// auditedIn formats the wanted entries in the log of a partition.
func (p *pair) auditedIn(e queue.Engine, partition int, wanted func(*audit.Entry) bool, timed bool) (text string) {
	v := audit.Verifier{Partition: partition}
	for {
		ask := audit.Request{Partition: partition, Limit: audit.MaxPage}
		if v.Number > 0 {
			ask.From = v.Number + 1
		}
		page, err := e.Audit(p.ctx, ask)
		if err == nil {
			err = v.Add(page.Records)
		}
		if err == nil && len(page.Records) < audit.MaxPage {
			err = v.End(page.Chains)
		}
		if err != nil {
			return err.Error()
		}
		for i := range page.Records {
			a, err := page.Records[i].Entry()
			if err != nil {
				return err.Error()
			}
			if !wanted(&a) {
				continue
			}
			if text += fmt.Sprintf("\n  %+v %s", a.Actor, auditText(&a)); timed {
				text += fmt.Sprintf(" at %d", a.At)
			}
			if a.Diff != nil {
				text += fmt.Sprintf(", differs in %+v", *a.Diff)
			}
			text += fmt.Sprintf(", of %s, %s -> %s", a.Budget, page.Records[i].Before, page.Records[i].After)
		}
		if len(page.Records) < audit.MaxPage {
			return text
		}
	}
}
