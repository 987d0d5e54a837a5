package deliver

import (
	"context"
	"slices"

	"github.com/penstock/penstock/deliver/usage"
	"github.com/penstock/penstock/internal/forward"
	"github.com/penstock/penstock/queue"
)

// Intake is a queue.Appender that shows each job to the target of its queue first. Jobs that the target can never
// deliver are refused as Invalid, with the field at fault, such as payload.to. Jobs without a cost get their cost for
// the target, and costs in other units that their payload states, by queue.Estimate.From. Put it in front of all other
// layers, including the overflow: otherwise deferred jobs have no cost.
//
// It uses the queue's spec as it was at most a second ago, or the last known one while the engine does not answer. Jobs
// of an unknown queue, or of a queue with unusable settings, are passed on unchanged. In a queue without a target no
// ETA is exact. The cost is part of a job's fingerprint. So if a job came in unchanged, or before its queue had this
// target, sending it again may be a Conflict, because its cost is different now.
type Intake struct {
	next    queue.Appender
	targets targets
}

var _ queue.Appender = (*Intake)(nil)

// NewIntake returns an Intake in front of next. It reads the settings of queues from specs, an engine.
func NewIntake(next queue.Appender, specs queue.SpecReader) *Intake {
	return (*Kinds)(nil).NewIntake(next, specs)
}

// Append implements queue.Appender.
func (i *Intake) Append(ctx context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	s := screening{jobs: jobs}
	for k := range jobs {
		if k == 0 || jobs[k].Queue != jobs[k-1].Queue {
			s.usable = i.targets.get(ctx, jobs[k].Queue)
		}
		s.look(k)
	}
	var answers []queue.Appended
	var err error
	if s.refused == nil {
		answers, err = i.next.Append(ctx, s.jobs)
	} else {
		answers = s.append(ctx, i.next)
	}
	if err == nil && s.read != nil {
		s.withoutRead(ctx, i.next, answers)
	}
	for k := range s.doubted {
		if k < len(answers) {
			answers[k].ETA.Exact = false
		}
	}
	return answers, err
}

// screening is the result of showing the jobs of one call to their targets.
type screening struct {
	jobs    []queue.Job      // the caller's, until one is changed
	own     bool             // jobs is a copy
	usable                   // the target of the present job's queue; without one every job is accepted
	doubted map[int]struct{} // jobs of queues without a target: their departure is unknown
	probe   *queue.Job       // copy shown to targets
	refused map[int]error
	read    map[int]map[string]int64 // of jobs whose payload states costs: the costs that the job itself states
}

func (s *screening) look(k int) {
	if s.estimates != nil && !s.readCosts(k) {
		return
	}
	if s.target == nil {
		if s.none {
			if s.doubted == nil {
				s.doubted = map[int]struct{}{}
			}
			s.doubted[k] = struct{}{}
		}
		return
	}
	if s.probe == nil {
		s.probe = new(queue.Job)
	}
	*s.probe = s.jobs[k]
	err := s.target.Accept(s.probe)
	switch {
	case err != nil:
		s.refuse(k, err)
	case s.probe.Cost != s.jobs[k].Cost:
		s.change(k).Cost = s.probe.Cost
	}
}

func (s *screening) refuse(k int, err error) {
	if s.refused == nil {
		s.refused = map[int]error{}
	}
	s.refused[k] = err
}

// change returns a job that may be changed: not the caller's.
func (s *screening) change(k int) *queue.Job {
	if !s.own {
		s.jobs, s.own = slices.Clone(s.jobs), true
	}
	return &s.jobs[k]
}

// readCosts adds the costs that a job's payload states. It reports whether the job can be appended.
func (s *screening) readCosts(k int) bool {
	j := &s.jobs[k]
	costs, err := s.estimates.Costs(j.Costs, j.ContentType, j.Payload)
	switch {
	case err != nil:
		s.refuse(k, err)
	case len(costs) != len(j.Costs):
		if s.read == nil {
			s.read = map[int]map[string]int64{}
		}
		s.read[k] = j.Costs
		s.change(k).Costs = costs
	}
	return err == nil
}

// withoutRead appends jobs again that were refused for a cost that only their payload states, without such costs: the
// limits have changed since the spec was read.
func (s *screening) withoutRead(ctx context.Context, next queue.Appender, answers []queue.Appended) {
	var again []int
	for k, stated := range s.read {
		if k < len(answers) && answers[k].Outcome == queue.Invalid && usage.Dropped(answers[k].Err, stated, s.jobs[k].Costs) {
			s.jobs[k].Costs = stated
			again = append(again, k)
		}
	}
	if len(again) > 0 {
		slices.Sort(again)
		forward.Jobs(ctx, next.Append, s.jobs, again, answers)
	}
}

// append passes the jobs that were not refused to next.
func (s *screening) append(ctx context.Context, next queue.Appender) []queue.Appended {
	answers := make([]queue.Appended, len(s.jobs))
	var rest []int
	for k := range s.jobs {
		if err := s.refused[k]; err != nil {
			answers[k] = queue.Appended{Outcome: queue.Invalid, ID: s.jobs[k].ID, Err: err}
		} else {
			rest = append(rest, k)
		}
	}
	forward.Jobs(ctx, next.Append, s.jobs, rest, answers)
	return answers
}
