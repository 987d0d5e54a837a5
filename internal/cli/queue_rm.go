package cli

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

type rmCmd struct {
	Name  string `arg:"" help:"Name of the queue."`
	Force bool   `help:"Remove it even if it holds jobs; they are lost, but for the dead: see penstock dead."`
	Yes   bool   `help:"Do not ask." short:"y"`
}

// Help is shown below the flags.
func (rmCmd) Help() string {
	return `An empty queue is removed at once. One that holds jobs, or has deferred ones, is left alone (exit code 3)
unless --force is given; then the number of jobs is told and a yes is asked for,
which --yes gives in advance.

Examples:
  penstock queue rm old
  penstock queue rm old --force --yes`
}

func (c *rmCmd) Run(r *run) error {
	api, err := r.client()
	if err != nil {
		return err
	}
	q, err := api.Queue(r.ctx, c.Name)
	if err != nil {
		return err
	}
	if c.Force && q.Stats.Size()+q.Stats.Deferred > 0 && !c.Yes {
		if err := c.ask(r, holds(&q)); err != nil {
			return err
		}
	}
	// At the revision that was looked at: what somebody made anew under this
	// name meanwhile is not what was meant.
	err = api.Delete(r.ctx, c.Name, q.Revision, c.Force)
	var refused *client.Problem
	if errors.As(err, &refused) && refused.Reason == "not_empty" {
		return &ended{ExitRefused, fmt.Errorf(
			"queue %s %s and was left alone; --force removes it with them", c.Name, holds(&q),
		)}
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(r.Out, "%s removed\n", c.Name)
	return err
}

// holds says what is lost with a queue.
func holds(q *wire.Queue) string {
	if q.Stats.Deferred == 0 {
		return fmt.Sprintf("holds %d jobs", q.Stats.Size())
	}
	return fmt.Sprintf("holds %d jobs, has %d deferred", q.Stats.Size(), q.Stats.Deferred)
}

func (c *rmCmd) ask(r *run, holds string) error {
	if f, ok := r.In.(*os.File); ok {
		if _, isTerminal := terminal(f); !isTerminal {
			return usage(fmt.Errorf("queue %s %s: give --yes to remove them without being asked", c.Name, holds))
		}
	}
	_, _ = fmt.Fprintf(r.Err, "queue %s %s, which will be lost. Type its name to remove it: ", c.Name, holds)
	answer, _ := bufio.NewReader(r.In).ReadString('\n') // nothing typed is no
	if strings.TrimSpace(answer) != c.Name {
		return &ended{ExitRefused, errors.New("left alone")}
	}
	return nil
}
