package forward

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/penstock/penstock/queue"
)

func TestJobs(t *testing.T) {
	away := errors.New("away")
	jobs := []queue.Job{{ID: "a"}, {ID: "b"}, {ID: "c"}}
	for _, c := range []struct {
		name  string
		at    []int
		fails bool
		want  []string
		err   error
	}{
		{"none", nil, true, []string{"invalid", "invalid", "invalid"}, nil},
		{"some", []int{0, 2}, false, []string{"accepted a", "invalid", "accepted c"}, nil},
		{"all", []int{0, 1, 2}, false, []string{"accepted a", "accepted b", "accepted c"}, nil},
		{"some fail", []int{1}, true, []string{"invalid", "failed b", "invalid"}, nil},
		{"all fail", []int{0, 1, 2}, true, []string{"failed a", "failed b", "failed c"}, away},
	} {
		t.Run(c.name, func(t *testing.T) {
			next := func(_ context.Context, jobs []queue.Job) (answers []queue.Appended, err error) {
				if c.fails {
					return nil, away
				}
				for i := range jobs {
					answers = append(answers, queue.Appended{Outcome: queue.Accepted, ID: jobs[i].ID})
				}
				return answers, nil
			}
			answers := slices.Repeat([]queue.Appended{{Outcome: queue.Invalid}}, len(jobs))
			Jobs(t.Context(), next, jobs, c.at, answers)
			for i := range answers {
				got := answers[i].Outcome.String()
				if answers[i].ID != "" {
					got += " " + answers[i].ID
				}
				if got != c.want[i] || (answers[i].Err != nil) != (answers[i].Outcome == queue.Failed) {
					t.Errorf("job %d: %+v, want %s", i, answers[i], c.want[i])
				}
			}
			if err := Err(answers); !errors.Is(err, c.err) {
				t.Errorf("%v, want %v", err, c.err)
			}
		})
	}
}
