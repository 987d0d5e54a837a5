package deliver

import (
	"context"
	"slices"

	"github.com/penstock/penstock/queue"
)

// Intake is a queue.Appender that lets the target of a job's queue see the job first: what the target can never
// deliver is refused as Invalid, with the field that is at fault (payload.to, say), and a job whose cost nobody set
// gets the one that it has for the target. Put it in front of everything else that takes jobs in, the overflow
// too, or those that are deferred will have no cost.
//
// It goes by what it knows of the queue's spec, which is a second old at most while the engine answers. While that does
// not, it goes by what it knew last; of a queue of which it knows nothing, or whose setting cannot be used, jobs are
// taken as they are. No ETA is exact in a queue that has no target. The cost is a part of a job's fingerprint: one that
// was taken in as it was, or before its queue had this target, is a Conflict when it is sent again and now costs
// something else.
type Intake struct {
	next    queue.Appender
	targets targets
}

var _ queue.Appender = (*Intake)(nil)

// NewIntake returns an Intake in front of next. It asks specs, an engine, for the settings of queues.
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
		answers, err = s.append(ctx, i.next)
	}
	for k := range s.doubted {
		if k < len(answers) {
			answers[k].ETA.Exact = false
		}
	}
	return answers, err
}

// screening is what the targets say of the jobs of one call.
type screening struct {
	jobs    []queue.Job      // the caller's, until one is changed
	own     bool             // jobs are not the caller's any more
	usable                   // of the job that is looked at; without a target it takes anything
	doubted map[int]struct{} // jobs of queues without a target: nobody knows when they leave
	probe   *queue.Job       // what targets are shown: the caller's jobs stay as they are
	refused map[int]error
}

func (s *screening) look(k int) {
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
		if s.refused == nil {
			s.refused = map[int]error{}
		}
		s.refused[k] = err
	case s.probe.Cost != s.jobs[k].Cost:
		if !s.own {
			s.jobs, s.own = slices.Clone(s.jobs), true
		}
		s.jobs[k].Cost = s.probe.Cost
	}
}

// append hands on what was not refused, and puts the answers together.
func (s *screening) append(ctx context.Context, next queue.Appender) ([]queue.Appended, error) {
	answers := make([]queue.Appended, len(s.jobs))
	var rest []queue.Job
	for k := range s.jobs {
		if err := s.refused[k]; err != nil {
			answers[k] = queue.Appended{Outcome: queue.Invalid, ID: s.jobs[k].ID, Err: err}
		} else {
			rest = append(rest, s.jobs[k])
		}
	}
	if len(rest) == 0 {
		return answers, nil
	}
	got, err := next.Append(ctx, rest)
	n := 0
	for k := range s.jobs {
		if s.refused[k] != nil {
			continue
		}
		if len(got) == len(rest) {
			answers[k] = got[n]
		} else { // nothing could be decided
			answers[k] = queue.Appended{Outcome: queue.Failed, ID: rest[n].ID, Err: err}
		}
		n++
	}
	return answers, nil // what is wrong with the rest stands in their answers
}
