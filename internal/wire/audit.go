package wire

import (
	"encoding/json"

	"github.com/penstock/penstock/queue/audit"
)

// AuditRecord is an entry of the audit log.
type AuditRecord struct {
	Partition int `json:"partition"`
	// Entry is the parsed Text.
	Entry audit.Entry `json:"entry"`
	// Text is the entry as it is stored. Digest is its SHA-256, which is also in the next entry of the same partition and
	// budget. Only callers who see all entries get them.
	Text   string       `json:"text,omitempty"`
	Digest audit.Digest `json:"digest,omitempty"`
	// Before and After are the subject before and after the change, with secrets masked.
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

// Audit is a page of the audit log: entries of all partitions by time.
type Audit struct {
	Records []AuditRecord `json:"records"`
	// More says that further entries follow. That is possible even if the page is short or empty.
	More bool `json:"more"`
	// Next is the after of the next request. With the oldest first, even the last page has it, so that a caller can
	// follow new entries.
	Next string `json:"next,omitempty"`
	// Chains are the first and last entries of each partition and budget. Only callers who see all entries get them.
	Chains []AuditChain `json:"chains,omitempty"`
}

// AuditChain describes the chain of a budget's entries in a partition.
type AuditChain struct {
	Partition int `json:"partition"`
	// Budget pays for the entries: "operators", "anonymous", "nobody" or "app:" and the name of an app.
	Budget audit.Budget `json:"budget"`
	// Oldest and Newest are the numbers of the oldest and the newest entry that are kept. Head is the digest of the
	// newest.
	Oldest int64        `json:"oldest"`
	Newest int64        `json:"newest"`
	Head   audit.Digest `json:"head,omitempty"`
	// Dropped is how many entries were dropped early, because the budget was used up.
	Dropped int64 `json:"dropped"`
}
