package machine

import (
	"bytes"
	"encoding/json"

	"github.com/penstock/penstock/queue"
)

// effects are what is to be kept of changes: records to put and to delete, in order. The first one that could not be
// encoded is told when they are written.
type effects struct {
	list  []effect
	bytes int // of their values, about, without the records of jobs
	err   error
}

// effect puts a record, or deletes it if it has no value.
type effect struct {
	table  []byte
	number uint64 // the record's key, unless it has a name
	name   string
	value  []byte
	// The value goes on with a job's record: with these bytes, or with those that the job of this number has.
	record []byte
	of     uint64
}

// write writes effects in the Transaction.
func (t *tables) write(s *effects) error {
	if s.err != nil {
		return s.err
	}
	var name []byte
	var to Table
	for i := range s.list {
		f := &s.list[i]
		if !bytes.Equal(name, f.table) {
			name, to = f.table, t.Table(f.table)
		}
		if err := t.writeOne(to, f); err != nil {
			return err
		}
	}
	return nil
}

func (t *tables) writeOne(to Table, f *effect) (err error) {
	k, value, record := []byte(f.name), f.value, f.record
	if f.name == "" {
		k = key(f.number)
	}
	if value == nil {
		return to.Delete(k)
	}
	if f.of != 0 {
		if record, err = t.getRecord(f.of); err != nil {
			return err
		}
	}
	return to.Put(k, append(value, record...))
}

// each calls do with each item.
func each[T any](items []T, do func(T)) {
	for _, item := range items {
		do(item)
	}
}

func (s *effects) put(table []byte, number uint64, value []byte) {
	s.bytes += len(value)
	s.list = append(s.list, effect{table: table, number: number, value: value})
}

func (s *effects) drop(table []byte, number uint64) {
	s.list = append(s.list, effect{table: table, number: number})
}

func (s *effects) putNamed(table []byte, name string, value []byte) {
	s.bytes += len(value)
	s.list = append(s.list, effect{table: table, name: name, value: value})
}

func (s *effects) dropNamed(table []byte, name string) {
	s.list = append(s.list, effect{table: table, name: name})
}

// encoded returns what an encoder did, and notes its error.
func (s *effects) encoded(text []byte, err error) []byte {
	if s.err == nil {
		s.err = err
	}
	return text
}

func (s *effects) putJob(j *job, record []byte) {
	head := encodeJobHead(j, len(record))
	s.list = append(s.list, effect{table: jobsTable, number: j.seq, value: head, record: record})
}

// moveJob puts a job whose record another one has.
func (s *effects) moveJob(j *job, from uint64) {
	s.list = append(s.list, effect{table: jobsTable, number: j.seq, value: encodeJobHead(j, 0), of: from})
}

func (s *effects) dropJob(seq uint64) { s.drop(jobsTable, seq) }

func (s *effects) putLease(seq uint64, to queue.State, ls *lease) {
	s.put(leasesTable, seq, encodeLease(to, ls))
}

func (s *effects) dropLease(seq uint64) { s.drop(leasesTable, seq) }

// putEnded stores an ended job; past is the timeline of a dead one.
func (s *effects) putEnded(q *queueState, d *endedJob, past []byte) {
	s.put(endedTable, d.key, encodeEnded(q, d, past))
}

// dropEnded deletes an ended job, and the record that a dead one kept.
func (s *effects) dropEnded(d *endedJob) {
	if d.seq != 0 {
		s.dropJob(d.seq)
	}
	s.drop(endedTable, d.key)
}

func (s *effects) putDeferral(q *queueState, number uint64, id string, d deferral) {
	s.put(deferredTable, d.seq, encodeDeferral(q.number, number, id, d))
}

func (s *effects) dropDeferral(seq uint64) { s.drop(deferredTable, seq) }

func (s *effects) putQueue(number uint64, r queueRecord) { s.put(queuesTable, number, r.encode()) }

func (s *effects) putFailures(q *queueState) {
	s.put(failuresTable, q.number, s.encoded(json.Marshal(q.failures)))
}

func (s *effects) putSpec(q *queueState, r specRecord) {
	s.put(specsTable, q.number, s.encoded(r.encode()))
}

// putAdapted stores an adapted rate; nil is none.
func (s *effects) putAdapted(number uint64, a *adaptedRate) {
	if a == nil {
		s.drop(adaptedTable, number)
		return
	}
	s.put(adaptedTable, number, s.encoded(a.encode()))
}

func (s *effects) putImport(number uint64, f importState) {
	state := []byte{0}
	if f.open {
		state[0] = 1
	}
	s.put(importsTable, number, append(state, f.mark...))
}

// dropQueue deletes a queue, all but its jobs.
func (s *effects) dropQueue(number uint64) {
	for _, table := range [][]byte{specsTable, queuesTable, failuresTable, adaptedTable, importsTable} {
		s.drop(table, number)
	}
}

func (s *effects) putLeftPaces(name string, p *paces) {
	s.putNamed(leftPacesTable, name, s.encoded(encodePaces(p)))
}

func (s *effects) dropLeftPaces(name string) { s.dropNamed(leftPacesTable, name) }

func (s *effects) putRetention(name string, r queue.Retention) {
	w := writer{}
	w.num(uint64(r.For), uint64(r.Max))
	s.putNamed(retentionsTable, name, w)
}

func (s *effects) dropRetention(name string) { s.dropNamed(retentionsTable, name) }

func (s *effects) putRule(r *rule, text []byte) {
	w := writer{}
	w.num(r.tallies.number, uint64(r.revision))
	s.putNamed(rulesTable, r.Name, append(w, text...))
}

func (s *effects) dropRule(name string) { s.dropNamed(rulesTable, name) }

func (s *effects) putTally(number uint64, record []byte) { s.put(talliesTable, number, record) }

func (s *effects) dropTally(number uint64) { s.drop(talliesTable, number) }

func (s *effects) putStore(r storeRecord) { s.putNamed(MetaTable, string(storeKey), r.encode()) }
