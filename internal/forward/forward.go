// Package forward passes part of an append call on and merges the answers. It serves the layers in front of an engine
// that answer some jobs themselves.
//
// Its error contract is that of queue.Appender: a call fails only if none of its jobs was decided.
package forward

import (
	"context"

	"github.com/penstock/penstock/queue"
)

// Jobs passes the jobs with the given indexes to next, and stores their answers in answers, which has one answer per
// job of the call. If next does not answer, these jobs are Failed with its error.
func Jobs(
	ctx context.Context, next func(context.Context, []queue.Job) ([]queue.Appended, error),
	jobs []queue.Job, at []int, answers []queue.Appended,
) {
	if len(at) == 0 {
		return
	}
	some := jobs
	if len(at) < len(jobs) {
		some = make([]queue.Job, len(at))
		for k, i := range at {
			some[k] = jobs[i]
		}
	}
	got, err := next(ctx, some)
	for k, i := range at {
		if len(got) == len(at) {
			answers[i] = got[k]
		} else {
			answers[i] = queue.Appended{Outcome: queue.Failed, ID: jobs[i].ID, Err: err}
		}
	}
}

// Err returns the error of a call with these answers: nil if any job was decided, else the error of the first.
func Err(answers []queue.Appended) error {
	for i := range answers {
		if answers[i].Outcome != queue.Failed {
			return nil
		}
	}
	if len(answers) == 0 {
		return nil
	}
	return answers[0].Err
}
