package machine

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/penstock/penstock/internal/jobrecord"
	"github.com/penstock/penstock/queue"
)

// The tables of the store. Keys are 8-byte big-endian numbers unless noted. Keys of jobs, ended and deferred only grow,
// so that inserts are at the end.
//
//	batches     queue, label -> the record of a batch: see batches.go
//	lanedebts   queue, digest of a lane -> what its limits were charged beyond their bursts: see lanelimits.go
//	meta        "store": see storeRecord
//	specs       queue -> its spec, revision and pause
//	queues      queue -> queueRecord
//	failures    queue -> its last failures
//	adapted     queue -> its adapted rate and the changes of it, if it adapts
//	imports     queue -> whether the latest import into it is open, and its mark
//	jobs        job -> queue, turn without its priority, when appended, whether readmitted, id, record
//	leases      job -> what happened to a job since its first grant; or a lease that must outlive the process
//	ended       number -> what is remembered of an ended job
//	deferred    number -> deferral
//	leftpaces   name of a deleted queue -> what its paces may still delay
//	retentions  name of a deleted queue with dead jobs -> its retention
//	changes     kind of subject, 0, name, 0, number -> a change of a queue or rule
//	versions    kind of subject, 0, name, 0, revision -> the spec, or the rule without overrides; the last few
//	deleted     until when the log of a deleted queue or rule is kept: see changelog.go
//	documents   kind, 0, name -> a document, or that it was deleted: see documents.go
//	docwrites   revision -> kind, 0, name of the document last written at that revision
//	docdeletes  the same for deleted documents
//	audit       number -> an entry of the audit log: see auditlog.go
//	auditof     budget, 0, number -> nothing: index of each budget's entries
//	rules       name of a rule -> the number of its tally set, its revision, the rule
//	samples     series and number -> a sample: see samples.go
//	tallies     number -> tally set, when it expires, digest of the key, its state
var (
	// MetaTable has records that exist once. The owner of the store may put its own records there.
	MetaTable         = []byte("meta")
	specsTable        = []byte("specs")
	queuesTable       = []byte("queues")
	failuresTable     = []byte("failures")
	jobsTable         = []byte("jobs")
	leasesTable       = []byte("leases")
	endedTable        = []byte("ended")
	deferredTable     = []byte("deferred")
	leftPacesTable    = []byte("leftpaces")
	retentionsTable   = []byte("retentions")
	importsTable      = []byte("imports")
	adaptedTable      = []byte("adapted")
	changesTable      = []byte("changes")
	versionsTable     = []byte("versions")
	documentsTable    = []byte("documents")
	docWritesTable    = []byte("docwrites")
	docDeletesTable   = []byte("docdeletes")
	auditTable        = []byte("audit")
	auditBudgetsTable = []byte("auditof")
	deletedTable      = []byte("deleted")
	rulesTable        = []byte("rules")
	talliesTable      = []byte("tallies")
	samplesTable      = []byte("samples")
	batchesTable      = []byte("batches")
	laneDebtsTable    = []byte("lanedebts")

	// Tables lists all tables.
	Tables = [][]byte{
		MetaTable, specsTable, queuesTable, failuresTable, jobsTable, leasesTable, endedTable, deferredTable,
		leftPacesTable, retentionsTable, changesTable, versionsTable, deletedTable, adaptedTable, rulesTable,
		talliesTable, importsTable, documentsTable, docWritesTable, docDeletesTable, auditTable,
		auditBudgetsTable, samplesTable, batchesTable, laneDebtsTable,
	}

	storeKey = []byte("store")
)

func key(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// getRecord returns the record of a job, which is valid while the transaction is.
func (t *tables) getRecord(seq uint64) ([]byte, error) {
	_, record, err := decodeJob(t.Table(jobsTable).Get(key(seq)))
	return record, err
}

// getTimeline returns the timeline of a dead job.
func (t *tables) getTimeline(d *endedJob) ([]queue.Attempt, error) {
	_, _, _, past, err := decodeEnded(t.Table(endedTable).Get(key(d.key)))
	if err != nil {
		return nil, err
	}
	return jobrecord.UnpackTimeline(past)
}

func (t *tables) getStore() (s storeRecord, err error) {
	rest, err := decode(t.Table(MetaTable).Get(storeKey), "store", s.fields()...)
	if err == nil && len(rest) > 0 {
		_, err = decode(rest, "store", &s.ahead)
	}
	return s, err
}

// effects are the records to put and to delete, in order. The first encoding error is reported when they are written.
type effects struct {
	list  []effect
	bytes int // of their values, about, without the records of jobs
	err   error
}

// effect puts a record, or deletes it if value is nil.
type effect struct {
	table  []byte
	number uint64 // the record's key, unless it has a name
	name   string
	value  []byte
	// A job's record to append to the value: these bytes, or the record of the job with this number.
	record []byte
	of     uint64
}

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

// encoded returns an encoder's result, and notes its error.
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

// moveJob puts a job with the record of another job.
func (s *effects) moveJob(j *job, from uint64) {
	s.list = append(s.list, effect{table: jobsTable, number: j.seq, value: encodeJobHead(j, 0), of: from})
}

func (s *effects) dropJob(seq uint64) { s.drop(jobsTable, seq) }

func (s *effects) putLease(seq uint64, to queue.State, ls *lease) {
	s.put(leasesTable, seq, encodeLease(to, ls))
}

func (s *effects) dropLease(seq uint64) { s.drop(leasesTable, seq) }

// putEnded stores an ended job; past is the timeline of a dead job.
func (s *effects) putEnded(q *queueState, d *endedJob, past []byte) {
	s.put(endedTable, d.key, encodeEnded(q, d, past))
}

// dropEnded deletes an ended job, and the record of a dead one.
func (s *effects) dropEnded(d *endedJob) {
	if d.seq != 0 {
		s.dropJob(d.seq)
	}
	s.drop(endedTable, d.key)
}

// putDeferral stores a deferral; label is the batch that counts it.
func (s *effects) putDeferral(q *queueState, number uint64, id string, d deferral, label string) {
	s.put(deferredTable, d.seq, encodeDeferral(q.number, number, id, d, label))
}

func (s *effects) dropDeferral(seq uint64) { s.drop(deferredTable, seq) }

func (s *effects) putQueue(number uint64, r queueRecord) {
	c := &codec{}
	r.code(c)
	s.put(queuesTable, number, c.b)
}

func (s *effects) putFailures(q *queueState) {
	s.put(failuresTable, q.number, s.encoded(json.Marshal(q.failures)))
}

func (s *effects) putSpec(q *queueState, r specRecord) {
	s.put(specsTable, q.number, s.encoded(r.encode()))
}

// putAdapted stores an adapted rate; nil deletes it.
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

// dropQueue deletes a queue, except its jobs.
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
	s.putNamed(retentionsTable, name, encode(&r.For, &r.Max))
}

func (s *effects) dropRetention(name string) { s.dropNamed(retentionsTable, name) }

func (s *effects) putRule(r *rule, text []byte) {
	s.putNamed(rulesTable, r.Name, append(encode(&r.tallies.number, &r.revision), text...))
}

func (s *effects) dropRule(name string) { s.dropNamed(rulesTable, name) }

func (s *effects) putTally(number uint64, record []byte) { s.put(talliesTable, number, record) }

func (s *effects) dropTally(number uint64) { s.drop(talliesTable, number) }

func (s *effects) putStore(r storeRecord) {
	fields := r.fields()
	if r.ahead != 0 {
		fields = append(fields, &r.ahead)
	}
	s.putNamed(MetaTable, string(storeKey), encode(fields...))
}

// CheckJobs reads every stored job, which Load does not, and compares it with its fingerprint. It returns the number of
// jobs. Errors: queue.ErrCorrupt, ctx's.
func CheckJobs(ctx context.Context, tx Transaction) (n int64, err error) {
	err = forEach(tx.Table(jobsTable), func(k, v []byte) error {
		if n++; n%1000 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		h, record, err := decodeJob(v)
		if err != nil {
			return fmt.Errorf("table %s, %x: %w", jobsTable, k, err)
		}
		var j queue.Job
		if err = jobrecord.Unpack(record, &j); err != nil {
			return fmt.Errorf("job %q: %w", h.id, err)
		}
		if j.Fingerprint() != binary.BigEndian.Uint64(record[jobrecord.FingerprintAt:]) {
			return fmt.Errorf("%w: the fingerprint of job %q does not match its payload", queue.ErrCorrupt, h.id)
		}
		return nil
	})
	return n, err
}
