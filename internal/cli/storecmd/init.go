package storecmd

import (
	"fmt"
	"log/slog"

	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/app/store"
	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/queue/redisq"
)

// InitCmd is penstock init.
type InitCmd struct {
	Redis      string `required:"" placeholder:"URL"`
	Partitions int    `placeholder:"N"`
}

// LongHelp returns the help texts that are too long for tags; see app.SetLongHelp.
func (InitCmd) LongHelp() map[string]string {
	return map[string]string{
		"redis": "URL of the store: redis://HOST:PORT[/DB], or the URL of a Sentinel or Cluster, as for ingress.",
		"partitions": fmt.Sprintf("Number of partitions; on a Cluster, the maximum number of nodes that share the work. It "+
			"cannot be changed later. Default: %d, or that of an existing store.", redisq.DefaultPartitions),
	}
}

// Help implements kong.HelpProvider.
func (InitCmd) Help() string {
	return `Creates the store on an empty Redis. Run again, it changes nothing and shows the existing store; it
fails if that store has other settings. ingress and drainer then need no --init, so they never mistake
a flushed Redis for a new one.

Examples:
  penstock init --redis redis://localhost:6379/0
  penstock init --redis redis+cluster://node1:6379,node2:6379 --partitions 64`
}

// Run runs the command.
func (c *InitCmd) Run(r *command.Run) error {
	log := slog.New(slog.DiscardHandler)
	app.QuietRedis(log)
	s, err := store.Init(r.Ctx, store.Options{RedisURL: c.Redis, Partitions: c.Partitions, Logger: log})
	if err != nil {
		return err
	}
	did := "exists; nothing was changed"
	if s.Made {
		did = "was created"
	}
	if _, err := fmt.Fprintf(r.Out, "the store on %s %s: %d partitions, schema %d\n",
		s.Addr, did, s.Partitions, redisq.Schema); err != nil {
		return err
	}
	if s.Partitions != redisq.DefaultPartitions {
		r.Say("start ingress and drainer with --partitions %d", s.Partitions)
	}
	return nil
}
