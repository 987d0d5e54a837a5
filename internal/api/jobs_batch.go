package api

import (
	"strconv"

	"github.com/penstock/penstock/internal/coalesce"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/queue"
)

// Bounds of a batch. They are those of an engine's flight, so that one batch is
// one round trip.
const (
	batchLines = coalesce.MaxItems
	batchBytes = coalesce.MaxBytes
	// freeArena is what a batch holds without being charged: that is in streamCost.
	freeArena = 64 << 10
	keepOut   = 64 << 10
)

// batch is a run of lines of a stream: what was read, and what is answered.
type batch struct {
	// arena holds the lines. When it is full a larger one takes its place, and
	// the payloads in the old one stay where they are.
	arena   []byte
	charge  charge // for arenas larger than freeArena
	bytes   int
	closed  bool // there was no memory for one more
	jobs    []queue.Job
	entries []entry
}

// entry is one line: a job, or why it is none.
type entry struct {
	line    int64
	job     int // index in jobs, when refused is nil
	refused *Problem
}

func newBatch(account *ops.Account) *batch { return &batch{charge: charge{account: account}} }

func (b *batch) full() bool {
	return b.closed || len(b.entries) >= batchLines || b.bytes >= batchBytes
}

// room makes room for a line, unless there is no memory for it.
func (b *batch) room(line []byte) *Problem {
	if cap(b.arena)-len(b.arena) >= len(line) {
		return nil
	}
	size := max(min(2*cap(b.arena), batchBytes), len(line), 16<<10)
	if size > freeArena {
		if p := b.charge.more(size); p != nil {
			return p
		}
	}
	b.arena = make([]byte, 0, size)
	return nil
}

// add reads a line, for which there is room, into the batch: as a job that has what is known of it already. It reports
// whether that is a job.
func (b *batch) add(env *envelope, o *Options, as queue.Job, number int64, line []byte) bool {
	at := len(b.arena)
	b.arena = append(b.arena, line...)
	b.bytes += len(line)
	raw := b.arena[at:len(b.arena):len(b.arena)]

	b.jobs = append(b.jobs, as)
	job := &b.jobs[len(b.jobs)-1]
	p := env.read(raw, job)
	if p == nil {
		p = o.refusesJob(job)
	}
	if p != nil {
		p.ID = job.ID
		b.jobs = b.jobs[:len(b.jobs)-1]
		b.refuse(number, p)
		return false
	}
	if job.ID == "" {
		job.ID = queue.NewID()
	}
	b.entries = append(b.entries, entry{line: number, job: len(b.jobs) - 1})
	return true
}

func (b *batch) refuse(number int64, p *Problem) {
	b.entries = append(b.entries, entry{line: number, job: -1, refused: p})
}

// reset makes the batch empty. The memory of payloads that the engine may still hold
// is let go.
func (b *batch) reset(letGo bool) {
	b.charge.free()
	b.closed = false
	if letGo {
		*b = *newBatch(b.charge.account)
		return
	}
	clear(b.jobs)
	clear(b.entries)
	b.jobs, b.entries, b.bytes = b.jobs[:0], b.entries[:0], 0
	if cap(b.arena) > freeArena {
		b.arena = nil
	}
	b.arena = b.arena[:0]
}

// appendAnswers appends one line for each line of the batch, in their order.
func (b *batch) appendAnswers(out []byte, answers []queue.Appended) []byte {
	for i := range b.entries {
		e := &b.entries[i]
		if e.refused != nil {
			out = appendRefusedLine(out, e.line, e.refused)
			continue
		}
		job, a := &b.jobs[e.job], &answers[e.job]
		switch a.Outcome {
		case queue.Accepted:
			out = appendLineHead(out, e.line, 202)
			out = appendAccepted(append(out, ','), a, job.ID)
			out = append(out, "}\n"...)
		case queue.Duplicate:
			out = appendLineHead(out, e.line, 200)
			out = appendAccepted(append(out, ','), a, job.ID)
			out = append(out, ",\"replayed\":true}\n"...)
		default:
			out = appendRefusedLine(out, e.line, refusedJob(a, job.Queue, job.ID))
		}
	}
	return out
}

func appendLineHead(b []byte, line int64, status int) []byte {
	b = append(b, `{"line":`...)
	b = strconv.AppendInt(b, line, 10)
	b = append(b, `,"status":`...)
	return strconv.AppendInt(b, int64(status), 10)
}

func appendRefusedLine(b []byte, line int64, p *Problem) []byte {
	b = appendLineHead(b, line, p.Reason.Status)
	b = p.appendMembers(b)
	return append(b, "}\n"...)
}
