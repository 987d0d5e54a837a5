package wire

import (
	"encoding/json"

	"github.com/penstock/penstock/queue/audit"
)

// AuditRecord is an entry of the audit log.
type AuditRecord struct {
	Partition int `json:"partition"`
	// Entry is what Text says.
	Entry audit.Entry `json:"entry"`
	// Text is the entry byte by byte as it is kept, and Digest its SHA-256: the next entry of its budget in the partition
	// has that as its previous. Only who sees all entries is told.
	Text   string       `json:"text,omitempty"`
	Digest audit.Digest `json:"digest,omitempty"`
	// Before and After are what it was and what it became, with secrets masked.
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

// Audit is a page of the audit log, of all partitions by time.
type Audit struct {
	Records []AuditRecord `json:"records"`
	// More says that others follow. A page may have fewer than asked for, or none, and others follow all the same.
	More bool `json:"more"`
	// Next is the after of the next request. Beginning with the oldest it is there also when no more follow, for those
	// that come.
	Next string `json:"next,omitempty"`
	// Chains are where the entries of each partition and budget begin and end. Only who sees all entries is told.
	Chains []AuditChain `json:"chains,omitempty"`
}

// AuditChain is how far the entries of a budget in a partition go.
type AuditChain struct {
	Partition int `json:"partition"`
	// Budget pays for the entries: "operators", "anonymous", "nobody" or "app:" and the name of an app.
	Budget audit.Budget `json:"budget"`
	// Oldest is the number of the oldest entry that is kept, Newest that of the newest. Head is the digest of the newest.
	Oldest int64        `json:"oldest"`
	Newest int64        `json:"newest"`
	Head   audit.Digest `json:"head,omitempty"`
	// Dropped is how many entries were dropped before their time, because the budget was used up.
	Dropped int64 `json:"dropped"`
}
