package cli

import "fmt"

type jobCancelCmd struct {
	Queue string `arg:"" help:"Name of the queue."`
	ID    string `arg:"" help:"Id of the job."`
	output
}

// Help is shown below the flags.
func (jobCancelCmd) Help() string {
	return `A job that is waiting, scheduled or deferred is cancelled: it will not leave, and its id
stays taken for the queue's retention. One that is leased to a drainer or has ended is
left alone, with exit code 3. It may be repeated.

Example:
  penstock job cancel email welcome-4711`
}

func (c *jobCancelCmd) Run(r *run) error {
	api, err := r.client()
	if err != nil {
		return err
	}
	j, err := api.Cancel(r.ctx, c.Queue, c.ID)
	if err != nil {
		return err
	}
	if c.json() {
		return printJSON(r.Out, j)
	}
	_, err = fmt.Fprintf(r.Out, "%s is %s\n", plain(j.ID), j.State)
	return err
}
