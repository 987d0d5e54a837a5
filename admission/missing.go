package admission

import (
	"sync"
	"time"

	"github.com/penstock/penstock/queue/ruleset"
)

const (
	// missingEvery is how often the log has the same queue and rule.
	missingEvery = time.Minute
	// maxMissing bounds of how many it is remembered.
	maxMissing = 1000
)

// missingRules tells of rules that queues name and that cannot be asked, which a person has to put right.
type missingRules struct {
	o Options

	mu   sync.Mutex
	told map[[2]string]time.Time // by queue and rule
}

func newMissingRules(o Options) *missingRules {
	return &missingRules{o: o, told: map[[2]string]time.Time{}}
}

// report counts a job that was not taken, and has the log say why, once in a while.
func (m *missingRules) report(e *ruleset.Missing) {
	m.o.Observer.Missing(e.Queue, e.Rule)
	if m.first(e) {
		m.o.Logger.Error("a queue asks a rule that cannot be asked, and none of its jobs is taken; put the rule, or take "+
			"it out of the rules of the queue or its parent",
			"queue", e.Queue, "rule", e.Rule, "because", "it "+e.Reason)
	}
}

// first reports whether the log does not have it yet, of late.
func (m *missingRules) first(e *ruleset.Missing) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, now := [2]string{e.Queue, e.Rule}, time.Now()
	if now.Sub(m.told[at]) < missingEvery {
		return false
	}
	if len(m.told) >= maxMissing {
		for other, told := range m.told {
			if now.Sub(told) >= missingEvery {
				delete(m.told, other)
			}
		}
		if len(m.told) >= maxMissing { // the log has enough of them
			return false
		}
	}
	m.told[at] = now
	return true
}
