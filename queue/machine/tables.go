package machine

import (
	"encoding/binary"

	"github.com/penstock/penstock/internal/jobrecord"
	"github.com/penstock/penstock/queue"
)

// The tables of the file. Keys are 8-byte big-endian numbers unless said otherwise; those of jobs, ended and deferred
// only grow, so that inserts are at the end.
//
//	meta        "store": see storeRecord
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
//	auditof     budget, 0, number -> nothing: the entries of each budget
//	rules       name of a rule -> the number of its tally set, its revision, the rule
//	tallies     number -> tally set, when it expires, digest of the key, its state
var (
	// MetaTable has what there is one of. Whoever keeps the store may put records of its own there.
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

	// Tables are all of them.
	Tables = [][]byte{
		MetaTable, specsTable, queuesTable, failuresTable, jobsTable, leasesTable, endedTable, deferredTable,
		leftPacesTable, retentionsTable, changesTable, versionsTable, deletedTable, adaptedTable, rulesTable,
		talliesTable, importsTable, documentsTable, docWritesTable, docDeletesTable, auditTable,
		auditBudgetsTable,
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

func (t *tables) getStore() (storeRecord, error) {
	return decodeStore(t.Table(MetaTable).Get(storeKey))
}
