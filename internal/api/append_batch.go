package api

import (
	"strconv"

	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/coalesce"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/queue"
)

// Limits of a batch. They are the limits of one call to the engine, so a batch is one round trip.
const (
	batchLines = coalesce.MaxItems
	batchBytes = coalesce.MaxBytes
	// freeArena is the part of an arena that streamCost pays for.
	freeArena = 64 << 10
	// maxKeptOutput is the largest output buffer that is reused.
	maxKeptOutput = 64 << 10
)

// batch is a run of lines of a stream.
type batch struct {
	// arena holds the lines. A full arena is replaced by a larger one; payloads in the old one stay where they are.
	arena  []byte
	charge *httpio.Charge // for arenas larger than freeArena
	bytes  int
	closed bool // there was no memory for another line
	jobs   []queue.Job
	lines  []batchLine
}

// batchLine is a line: a job, or the problem with it.
type batchLine struct {
	number  int64
	job     int // index in jobs, if refused is nil
	refused *httpio.Problem
}

func newBatch(account *ops.Account) *batch { return &batch{charge: httpio.NewCharge(account)} }

func (b *batch) full() bool {
	return b.closed || len(b.lines) >= batchLines || b.bytes >= batchBytes
}

// grow makes room for a line, or returns a problem if there is no memory for it.
func (b *batch) grow(line []byte) *httpio.Problem {
	if cap(b.arena)-len(b.arena) >= len(line) {
		return nil
	}
	size := max(min(2*cap(b.arena), batchBytes), len(line), 16<<10)
	if size > freeArena {
		if p := b.charge.Add(size); p != nil {
			return p
		}
	}
	b.arena = make([]byte, 0, size)
	return nil
}

// add reads a line into the batch, which must have room for it. The job begins as a copy of base. add reports whether
// the line is a valid job.
func (b *batch) add(reader *httpio.JobReader, o *Options, base queue.Job, number int64, line []byte) bool {
	at := len(b.arena)
	b.arena = append(b.arena, line...)
	b.bytes += len(line)
	raw := b.arena[at:len(b.arena):len(b.arena)]

	b.jobs = append(b.jobs, base)
	job := &b.jobs[len(b.jobs)-1]
	p := reader.Read(raw, job)
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
	b.lines = append(b.lines, batchLine{number: number, job: len(b.jobs) - 1})
	return true
}

func (b *batch) refuse(number int64, p *httpio.Problem) {
	b.lines = append(b.lines, batchLine{number: number, job: -1, refused: p})
}

// reset empties the batch. inUse says that the engine may still hold payloads, whose memory is then not reused.
func (b *batch) reset(inUse bool) {
	b.charge.Free()
	b.closed = false
	if inUse {
		*b = *newBatch(b.charge.Account())
		return
	}
	clear(b.jobs)
	clear(b.lines)
	b.jobs, b.lines, b.bytes = b.jobs[:0], b.lines[:0], 0
	if cap(b.arena) > freeArena {
		b.arena = nil
	}
	b.arena = b.arena[:0]
}

// appendAnswers appends an answer for each line of the batch, in order.
func (b *batch) appendAnswers(out []byte, answers []queue.Appended) []byte {
	for i := range b.lines {
		l := &b.lines[i]
		if l.refused != nil {
			out = appendRefusedLine(out, l.number, l.refused)
			continue
		}
		job, a := &b.jobs[l.job], &answers[l.job]
		switch a.Outcome {
		case queue.Accepted:
			out = appendLineHead(out, l.number, 202)
			out = httpio.AppendAccepted(append(out, ','), a, job.ID)
			out = append(out, "}\n"...)
		case queue.Duplicate:
			out = appendLineHead(out, l.number, 200)
			out = httpio.AppendAccepted(append(out, ','), a, job.ID)
			out = append(out, ",\"replayed\":true}\n"...)
		default:
			out = appendRefusedLine(out, l.number, httpio.JobProblem(a, job.Queue, job.ID))
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

func appendRefusedLine(b []byte, line int64, p *httpio.Problem) []byte {
	b = appendLineHead(b, line, p.Reason.Status)
	b = p.AppendMembers(b)
	return append(b, "}\n"...)
}
