package auth

import (
	"log/slog"
	"net"
	"sync"
)

const (
	// mostAddresses are told apart; the others are counted together.
	mostAddresses = 1000
	// mostLines are logged at a time.
	mostLines = 100
)

// wrongTable counts requests that proved nobody, by the address that they came from, for the log: it says once a
// minute what came, however much that is.
type wrongTable struct {
	mu     sync.Mutex
	from   map[string]*wrongCount
	others int64
}

type wrongCount struct {
	count int64
	last  Code
}

// add counts a request, if it was refused for what it came with.
func (t *wrongTable) add(remote string, why Code) {
	if why == Missing || why == Unavailable {
		return
	}
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote // of a Unix socket
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.from[host]
	if of == nil {
		if len(t.from) == mostAddresses {
			t.others++
			return
		}
		if t.from == nil {
			t.from = map[string]*wrongCount{}
		}
		of = &wrongCount{}
		t.from[host] = of
	}
	of.count++
	of.last = why
}

// tell logs what was counted, and forgets it.
func (t *wrongTable) tell(log *slog.Logger) {
	t.mu.Lock()
	from, others := t.from, t.others
	t.from, t.others = nil, 0
	t.mu.Unlock()
	lines := 0
	for host, of := range from {
		if lines++; lines > mostLines {
			others += of.count
			continue
		}
		log.Warn("requests were refused for what they came with", "address", host, "count", of.count, "last", string(of.last))
	}
	if others > 0 {
		log.Warn("requests of other addresses were refused for what they came with", "count", others)
	}
}
