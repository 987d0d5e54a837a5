package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/admission"
	"github.com/penstock/penstock/queue"
)

// Admission counts what rules decide without the store. It is an admission.Observer.
type Admission struct {
	away  *prometheus.CounterVec
	rules *slots
}

var _ admission.Observer = (*Admission)(nil)

// NewAdmission registers the metrics of rules whose store is away; maxRules is how many get series of their own, 0 for the
// default.
func NewAdmission(reg prometheus.Registerer, maxRules int) (*Admission, error) {
	m := &Admission{away: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "penstock_rule_away_total", Help: "What a rule's away decided because the store could not be asked, by what it said.",
	}, []string{"rule", "decided"})}
	m.rules = newSlots(maxRules)
	return m, register(reg, m.away)
}

// Away implements admission.Observer.
func (m *Admission) Away(rule, policy string, allowed, refused int) {
	m.rules.age(time.Now())
	if allowed > 0 {
		m.rules.add(rule, m.away, policy, float64(allowed))
	}
	if refused > 0 {
		if policy == queue.AwayShare {
			policy = "share_refused"
		}
		m.rules.add(rule, m.away, policy, float64(refused))
	}
}
