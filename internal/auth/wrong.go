package auth

import (
	"log/slog"
	"net"
	"sync"
)

const (
	// mostAddresses is how many addresses are counted separately. The rest are counted together.
	mostAddresses = 1000
	// mostLines is how many lines are logged at a time.
	mostLines = 100
)

// wrongTable counts requests with invalid credentials by address. It is logged once a minute, in a bounded number of
// lines.
type wrongTable struct {
	mu     sync.Mutex
	from   map[string]*wrongCount
	others int64
}

type wrongCount struct {
	count int64
	last  Code
}

// add counts a request, if it was refused for its credentials.
func (t *wrongTable) add(remote string, why Code) {
	if why == Missing || why == Unavailable {
		return
	}
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote // a Unix socket
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

// log logs the counts and resets them.
func (t *wrongTable) log(log *slog.Logger) {
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
		log.Warn(
			"requests with invalid credentials were refused", "address", host, "count", of.count, "last", string(of.last),
		)
	}
	if others > 0 {
		log.Warn("requests with invalid credentials from other addresses were refused", "count", others)
	}
}
