package boltq

import (
	"encoding/binary"
	"encoding/json"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/jobrecord"
)

// The tables of the file. Keys are 8-byte big-endian numbers unless said otherwise; those of jobs, ended and deferred
// only grow, so that inserts are at the end.
//
//	meta        "schema", "store" (see storeRecord), and "keepchanges" if it was ever set
//	specs       queue -> its spec, revision and pause
//	queues      queue -> queueRecord
//	failures    queue -> its last failures
//	adapted     queue -> its adapted rate and the changes of that, if it adapts
//	imports     queue -> whether the latest import into it is open, and its mark
//	jobs        job -> queue, turn without its priority, when appended, whether readmitted, id, record
//	leases      job -> what happened to a job since its first grant; or a lease that must outlive the process
//	ended       number -> what is remembered of a job that ended
//	deferred    number -> deferral
//	leftpaces   name of a deleted queue -> what its paces may still delay
//	retentions  name of a deleted queue with dead jobs -> its retention
//	changes     kind of subject, 0, name, 0, number -> a change of a queue or rule
//	versions    kind of subject, 0, name, 0, revision -> the spec, or the rule without overrides; the last few
//	deleted     until when the log of a deleted queue or rule is kept: see deletedlog.go
//	documents   kind, 0, name -> a document, or that it was deleted: see documents.go
//	docwrites   revision -> kind, 0, name of the document that was last written then
//	docdeletes  the same of those that were deleted
//	audit       number -> an entry of the audit log: see auditlog.go
//	rules       name of a rule -> the number of its tally set, its revision, the rule
//	tallies     number -> tally set, when it expires, digest of the key, its state
var (
	metaTable       = []byte("meta")
	specsTable      = []byte("specs")
	queuesTable     = []byte("queues")
	failuresTable   = []byte("failures")
	jobsTable       = []byte("jobs")
	leasesTable     = []byte("leases")
	endedTable      = []byte("ended")
	deferredTable   = []byte("deferred")
	leftPacesTable  = []byte("leftpaces")
	retentionsTable = []byte("retentions")
	importsTable    = []byte("imports")
	adaptedTable    = []byte("adapted")
	changesTable    = []byte("changes")
	versionsTable   = []byte("versions")
	documentsTable  = []byte("documents")
	docWritesTable  = []byte("docwrites")
	docDeletesTable = []byte("docdeletes")
	auditTable      = []byte("audit")
	deletedTable    = []byte("deleted")
	rulesTable      = []byte("rules")
	talliesTable    = []byte("tallies")

	allTables = [][]byte{
		metaTable, specsTable, queuesTable, failuresTable, jobsTable, leasesTable, endedTable, deferredTable,
		leftPacesTable, retentionsTable, changesTable, versionsTable, deletedTable, adaptedTable, rulesTable,
		talliesTable, importsTable, documentsTable, docWritesTable, docDeletesTable, auditTable,
	}

	schemaKey      = []byte("schema")
	storeKey       = []byte("store")
	keepChangesKey = []byte("keepchanges")
)

// schema is the version of the file's layout. A file of another version is refused.
const schema = 1

// tables is a transaction; its tables are opened when they are needed.
type tables struct {
	tx *bbolt.Tx

	jobs, leases, ended, deferred, queues, tallies *bbolt.Bucket
}

func (t *tables) open(at **bbolt.Bucket, name []byte, fill float64) *bbolt.Bucket {
	if *at == nil {
		*at = t.tx.Bucket(name)
		(*at).FillPercent = fill
	}
	return *at
}

// Jobs, ended jobs and deferrals are only ever appended, so their pages are filled to the brim.
func (t *tables) jobTable() *bbolt.Bucket      { return t.open(&t.jobs, jobsTable, 1) }
func (t *tables) endedTable() *bbolt.Bucket    { return t.open(&t.ended, endedTable, 1) }
func (t *tables) deferredTable() *bbolt.Bucket { return t.open(&t.deferred, deferredTable, 1) }

func (t *tables) leaseTable() *bbolt.Bucket {
	return t.open(&t.leases, leasesTable, bbolt.DefaultFillPercent)
}

// Tallies are mostly appended too, but then updated.
func (t *tables) tallyTable() *bbolt.Bucket { return t.open(&t.tallies, talliesTable, 0.9) }

func (t *tables) queueTable() *bbolt.Bucket {
	return t.open(&t.queues, queuesTable, bbolt.DefaultFillPercent)
}

// each calls do with each item, up to the first error.
func each[T any](items []T, do func(T) error) error {
	for _, item := range items {
		if err := do(item); err != nil {
			return err
		}
	}
	return nil
}

func key(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func (t *tables) putJob(j *job, record []byte) error {
	return t.jobTable().Put(key(j.seq), encodeJob(j, record))
}

func (t *tables) dropJob(seq uint64) error { return t.jobTable().Delete(key(seq)) }

// getRecord returns the record of a job, which is valid while the transaction is.
func (t *tables) getRecord(seq uint64) ([]byte, error) {
	_, record, err := decodeJob(t.jobTable().Get(key(seq)))
	return record, err
}

func (t *tables) putLease(seq uint64, s queue.State, ls *lease) error {
	return t.leaseTable().Put(key(seq), encodeLease(s, ls))
}

func (t *tables) dropLease(seq uint64) error { return t.leaseTable().Delete(key(seq)) }

// putEnded stores an ended job; past is the timeline of a dead one.
func (t *tables) putEnded(q *queueState, d *endedJob, past []byte) error {
	return t.endedTable().Put(key(d.key), encodeEnded(q, d, past))
}

// getTimeline returns the timeline of a dead job.
func (t *tables) getTimeline(d *endedJob) ([]queue.Attempt, error) {
	_, _, _, past, err := decodeEnded(t.endedTable().Get(key(d.key)))
	if err != nil {
		return nil, err
	}
	return jobrecord.UnpackTimeline(past)
}

// dropEnded deletes an ended job, and the record that a dead one kept.
func (t *tables) dropEnded(d *endedJob) error {
	if d.seq != 0 {
		if err := t.dropJob(d.seq); err != nil {
			return err
		}
	}
	return t.endedTable().Delete(key(d.key))
}

func (t *tables) putDeferral(q *queueState, number uint64, id string, d deferral) error {
	return t.deferredTable().Put(key(d.seq), encodeDeferral(q.number, number, id, d))
}

func (t *tables) dropDeferral(seq uint64) error { return t.deferredTable().Delete(key(seq)) }

func (t *tables) putQueue(number uint64, r queueRecord) error {
	return t.queueTable().Put(key(number), r.encode())
}

func (t *tables) putFailures(d *queueDelta) error {
	all := slices.Clone(d.failures)
	slices.Reverse(all)
	all = append(all, d.queue.failures...)
	text, err := json.Marshal(all[:min(len(all), maxFailures)])
	if err != nil {
		return err
	}
	return t.tx.Bucket(failuresTable).Put(key(d.queue.number), text)
}

func (t *tables) putSpec(q *queueState, s specRecord) error {
	text, err := s.encode()
	if err != nil {
		return err
	}
	return t.tx.Bucket(specsTable).Put(key(q.number), text)
}

// putAdapted stores an adapted rate; nil is none.
func (t *tables) putAdapted(number uint64, a *adaptedRate) error {
	if a == nil {
		return t.tx.Bucket(adaptedTable).Delete(key(number))
	}
	text, err := a.encode()
	if err != nil {
		return err
	}
	return t.tx.Bucket(adaptedTable).Put(key(number), text)
}

func (t *tables) putImport(number uint64, f importState) error {
	state := []byte{0}
	if f.open {
		state[0] = 1
	}
	return t.tx.Bucket(importsTable).Put(key(number), append(state, f.mark...))
}

// dropQueue deletes a queue, all but its jobs.
func (t *tables) dropQueue(number uint64) error {
	for _, name := range [][]byte{specsTable, queuesTable, failuresTable, adaptedTable, importsTable} {
		if err := t.tx.Bucket(name).Delete(key(number)); err != nil {
			return err
		}
	}
	return nil
}

func (t *tables) putLeftPaces(name string, p *paces) error {
	text, err := encodePaces(p)
	if err != nil {
		return err
	}
	return t.tx.Bucket(leftPacesTable).Put([]byte(name), text)
}

func (t *tables) putRetention(name string, r queue.Retention) error {
	w := writer{}
	w.num(uint64(r.For), uint64(r.Max))
	return t.tx.Bucket(retentionsTable).Put([]byte(name), w)
}

func (t *tables) dropRetention(name string) error {
	return t.tx.Bucket(retentionsTable).Delete([]byte(name))
}

func (t *tables) dropLeftPaces(name string) error {
	return t.tx.Bucket(leftPacesTable).Delete([]byte(name))
}

func (t *tables) putRule(r *rule, text []byte) error {
	w := writer{}
	w.num(r.tallies.number, uint64(r.revision))
	return t.tx.Bucket(rulesTable).Put([]byte(r.Name), append(w, text...))
}

func (t *tables) dropRule(name string) error { return t.tx.Bucket(rulesTable).Delete([]byte(name)) }

func (t *tables) putTally(number uint64, record []byte) error {
	return t.tallyTable().Put(key(number), record)
}

func (t *tables) dropTally(number uint64) error { return t.tallyTable().Delete(key(number)) }

func (t *tables) putStore(s storeRecord) error {
	return t.tx.Bucket(metaTable).Put(storeKey, s.encode())
}

func (t *tables) getStore() (storeRecord, error) {
	return decodeStore(t.tx.Bucket(metaTable).Get(storeKey))
}
