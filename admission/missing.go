package admission

import (
	"sync"
	"time"

	"github.com/penstock/penstock/queue/ruleset"
)

const (
	// missingEvery is how often the same queue and rule are logged.
	missingEvery = time.Minute
	// maxMissing bounds the remembered pairs.
	maxMissing = 1000
)

// missingRules reports rules that queues name but that cannot be asked, which an operator has to fix.
type missingRules struct {
	o Options

	mu     sync.Mutex
	logged map[[2]string]time.Time // by queue and rule
}

func newMissingRules(o Options) *missingRules {
	return &missingRules{o: o, logged: map[[2]string]time.Time{}}
}

// report counts a refused job, and occasionally logs why.
func (m *missingRules) report(e *ruleset.Missing) {
	m.o.Observer.Missing(e.Queue, e.Rule)
	if m.first(e) {
		m.o.Logger.Error("a queue names a rule that cannot be asked, and none of its jobs is accepted: create the rule, or "+
			"remove it from the rules of the queue or its parent",
			"queue", e.Queue, "rule", e.Rule, "because", "it "+e.Reason)
	}
}

// first reports whether the pair was not logged recently.
func (m *missingRules) first(e *ruleset.Missing) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, now := [2]string{e.Queue, e.Rule}, time.Now()
	if now.Sub(m.logged[at]) < missingEvery {
		return false
	}
	if len(m.logged) >= maxMissing {
		for other, logged := range m.logged {
			if now.Sub(logged) >= missingEvery {
				delete(m.logged, other)
			}
		}
		if len(m.logged) >= maxMissing { // enough of them are logged
			return false
		}
	}
	m.logged[at] = now
	return true
}
