package cli

import (
	"fmt"
	"log/slog"

	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/app/store"
	"github.com/penstock/penstock/queue/redisq"
)

// initCmd makes the store of ingress and drainer before either starts.
type initCmd struct {
	Redis      string `required:"" placeholder:"URL"`
	Partitions int    `placeholder:"N"`
}

// LongHelp is the help that is too long for the tags.
func (initCmd) LongHelp() map[string]string {
	return map[string]string{
		"redis": "The store, as ingress takes it: redis://HOST:PORT, redis+sentinel://... or redis+cluster://...",
		"partitions": fmt.Sprintf("How many parts the store gets, on a Cluster the most nodes that can share the work. "+
			"Fixed from then on. Default: %d, or the number of an existing store.", redisq.DefaultPartitions),
	}
}

// Help is shown below the flags.
func (initCmd) Help() string {
	return `Creates the store on an empty Redis and exits. Run again, it changes nothing and shows the store
that exists; it fails if that store has other settings. ingress and drainer then need no --init,
so neither takes a Redis that was flushed for a new one.

Examples:
  penstock init --redis redis://localhost:6379/0
  penstock init --redis redis+cluster://node1:6379,node2:6379 --partitions 64`
}

func (c *initCmd) Run(r *run) error {
	log := slog.New(slog.DiscardHandler)
	app.QuietRedis(log)
	s, err := store.Init(r.ctx, store.Options{RedisURL: c.Redis, Partitions: c.Partitions, Logger: log})
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
		r.say("start ingress and drainer with --partitions %d", s.Partitions)
	}
	return nil
}
