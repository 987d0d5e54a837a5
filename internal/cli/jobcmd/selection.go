package jobcmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/wire"
)

// filter selects dead or held jobs by their reason and by the time since when they are.
type filter struct {
	Reason string         `help:"Only jobs whose last reason contains this text." placeholder:"TEXT"`
	Before command.Moment `placeholder:"INSTANT"`
	Older  time.Duration  `placeholder:"DURATION"`
	Since  command.Moment `placeholder:"INSTANT"`
	Newer  time.Duration  `placeholder:"DURATION"`
}

func (filter) LongHelp() map[string]string {
	return map[string]string{
		"before": "Only jobs that became dead or held before this instant, such as 07:00 or 2026-01-02T15:04:05Z.",
		"since":  "Only jobs that became dead or held at or after this instant.",
		"older":  "Only jobs that have been dead or held for longer than this, such as 24h.",
		"newer":  "Only jobs that have been dead or held for at most this long.",
	}
}

func (f *filter) any() bool {
	return f.Reason != "" || f.Before != "" || f.Older != 0 || f.Since != "" || f.Newer != 0
}

// choice returns the filter as a request.
func (f *filter) choice(r *command.Run, now time.Time) (wire.Choice, error) {
	w := wire.Choice{Reason: f.Reason}
	if f.Older < 0 || f.Older > 0 && f.Before != "" {
		return w, command.Usage(errors.New("--older: must be positive, and cannot be used with --before"))
	}
	if f.Newer < 0 || f.Newer > 0 && f.Since != "" {
		return w, command.Usage(errors.New("--newer: must be positive, and cannot be used with --since"))
	}
	at := func(flag string, m command.Moment, ago time.Duration) (*time.Time, error) {
		if ago > 0 {
			t := now.Add(-ago)
			return &t, nil
		}
		if m == "" {
			return nil, nil
		}
		t, err := m.Past(r, flag, now)
		return &t, err
	}
	var err error
	if w.Before, err = at("--before", f.Before, f.Older); err == nil {
		w.Since, err = at("--since", f.Since, f.Newer)
	}
	return w, err
}

// selection is the jobs that a command acts on.
type selection struct {
	Queue string   `arg:"" help:"Name of the queue."`
	IDs   []string `arg:"" name:"id" optional:"" help:"Ids of the jobs. Default: all that the flags select."`
	filter
	DryRun bool `help:"Only print the number of jobs."`
}

func (s *selection) request(r *command.Run, now time.Time) (wire.Choice, error) {
	w, err := s.choice(r, now)
	if err == nil && len(s.IDs) > 0 && (s.any() || s.DryRun) {
		err = command.Usage(errors.New("ids cannot be used with --reason, --before, --older, --since, --newer or --dry-run"))
	}
	w.DryRun = s.DryRun
	return w, err
}

// which describes a selection without ids.
func (s *selection) which() string {
	if s.any() {
		return "the jobs that the flags select"
	}
	return "all of them"
}

// each acts on all selected jobs, page by page. Without ids it looks at no more jobs than count returns at first, so it
// leaves alone the jobs that die again meanwhile.
func (s *selection) each(
	r *command.Run, count func(context.Context, string) (int64, error), what string,
	do func(context.Context, string, wire.Choice) (wire.Decided, error),
) (sum wire.Decided, err error) {
	w, err := s.request(r, time.Now())
	if err != nil {
		return sum, err
	}
	total := int64(len(s.IDs))
	if total == 0 {
		if total, err = count(r.Ctx, s.Queue); err != nil {
			return sum, err
		}
	}
	progress := command.NewProgress(r.Err, what, "jobs", total)
	defer progress.End()
	for ids := s.IDs; ; {
		if len(s.IDs) > 0 {
			w.IDs, ids = ids[:min(len(ids), pageSize)], ids[min(len(ids), pageSize):]
		}
		d, err := do(r.Ctx, s.Queue, w)
		if err != nil {
			return sum, err
		}
		sum.Add(d)
		progress.Show(min(sum.LookedAt, total))
		w.After = d.Next
		if len(s.IDs) > 0 && len(ids) == 0 || len(s.IDs) == 0 && (d.Next == "" || sum.LookedAt >= total) {
			return sum, nil
		}
	}
}

// report prints what was done, even if err ended it early, and returns an error about the jobs that were not changed.
func (s *selection) report(r *command.Run, o command.Output, sum wire.Decided, text string, err error) error {
	if printed := o.Printf(r, sum, "%s\n", text); printed != nil {
		return printed
	}
	if err != nil {
		return err
	}
	if sum.NotHeld > 0 {
		return command.Fail(command.ExitRefused, fmt.Errorf("%s not changed: not held", show.Jobs(sum.NotHeld)))
	}
	if left := sum.NoRoom + sum.NotDead + sum.Broken; left > 0 {
		return command.Fail(command.ExitRefused, fmt.Errorf("%s not changed: %d without room, %d not dead, %d unreadable",
			show.Jobs(left), sum.NoRoom, sum.NotDead, sum.Broken))
	}
	return nil
}
