package app

import (
	"github.com/penstock/penstock/admission"
	"github.com/penstock/penstock/deferred"
	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/internal/metrics"
	"github.com/penstock/penstock/queue"
)

// roles is an engine of which each role is played by whatever stands before the store for it.
type roles struct {
	queue.Appender
	queue.Outflow
	queue.Specs
	queue.ChangeLog
	queue.Jobs
	queue.Overflow
	queue.Rules
	queue.Taker
	queue.Store
}

// newEngine is the store as the API sees it. A call goes down this list:
//
//	metrics.Engine           counts and times what is appended, and counts what is replayed
//	  deliver.Intake         of an append: the queue's target refuses what it could never deliver, and sets the cost
//	  admission.Appender     of an append: the rules of other groups than the queue's are asked
//	  deferred.Appender      of an append, with an overflow: the store is asked to offer, and what finds no room waits
//	  admission.Admission    of a take: the rule's away decides while the store does not answer
//	metrics.Rules            counts what rules say, also within an append
//	the store
func (i *Ingress) newEngine(store queue.Engine) (queue.Engine, error) {
	rules, err := metrics.NewRules(i.o.Registry, i.o.MaxQueueLabels)
	if err != nil {
		return nil, err
	}
	store = rules.Over(store)
	i.admission = admission.New(store, admission.Options{Observer: rules, Logger: i.o.Logger})
	var last queue.Appender = store
	if i.o.Overflow != nil {
		i.overflow = deferred.New(store, i.o.Overflow, i.admission.Pass)
		last = i.overflow
	}
	return metrics.NewEngine(roles{
		Appender: deliver.NewIntake(admission.NewAppender(i.admission, last), store),
		Outflow:  store, Specs: store, ChangeLog: store, Jobs: store, Overflow: store, Rules: store, Store: store,
		Taker: i.admission,
	}, i.o.Registry, i.o.MaxQueueLabels)
}
