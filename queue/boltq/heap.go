package boltq

import (
	"fmt"
	"runtime/metrics"
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/machine"
)

// heap is the memory of this process. The engine's mutex guards it.
//
// The collector knows how much is live, but only right after it ran. Between its runs, the number of jobs shows what
// came and went.
type heap struct {
	limit  int64 // of the process; 0 if unlimited
	at     time.Time
	live   int64 // bytes that the last collection found
	jobs   int64 // number of jobs then
	cycles uint64
	sample [2]metrics.Sample

	full, scarce error
}

// heapShare is the part of the memory that live data may take: 1/heapShare. The rest is for garbage, for requests, for
// the program, and for the file's pages in the system's cache.
const heapShare = 2

func newHeap(limit int64) heap {
	h := heap{limit: limit}
	h.sample[0].Name, h.sample[1].Name = "/gc/cycles/total:gc-cycles", "/gc/heap/live:bytes"
	h.full = fmt.Errorf(
		"%w: the process is near its memory limit of %d bytes; the rest is reserved for the jobs in its queues",
		queue.ErrStoreFull, limit,
	)
	h.scarce = fmt.Errorf("%w: of the memory limit of %d bytes, %s", queue.ErrStoreFull, limit, machine.KeptForOthers)
	return h
}

// heapEvery is the minimum time between readings of the collector's figures.
const heapEvery = 20 * time.Millisecond

// space returns how much of the memory is used with that many jobs.
func (h *heap) space(jobs int64, now time.Time) queue.Space {
	if h.limit == 0 {
		return queue.Space{}
	}
	if now.Sub(h.at) >= heapEvery {
		h.at = now
		metrics.Read(h.sample[:])
		if n := h.sample[0].Value.Uint64(); n != h.cycles {
			h.cycles, h.live, h.jobs = n, int64(h.sample[1].Value.Uint64()), jobs
		}
	}
	return queue.Space{
		Used: max(0, h.live+(jobs-h.jobs)*machine.JobMemory), Stop: h.limit / heapShare, Limit: h.limit, Memory: true,
	}
}

// room returns the room for the machine, by the space.
func (h *heap) room(s queue.Space) (r machine.Room) {
	if s.Limit > 0 {
		r.Free, r.Scarce = max(1, s.Stop-s.Used), h.scarce
	}
	if s.Full() {
		r.Full = h.full
	}
	return r
}

// fuller returns the space that is nearer to full: the memory if it is full, or filling, and the file is not; else the
// file.
func fuller(file, memory queue.Space) queue.Space {
	if memory.Full() && !file.Full() || memory.Filling() && !file.Filling() || file.Limit == 0 && memory.Limit > 0 {
		return memory
	}
	return file
}
