package cli

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/prove"
	"github.com/penstock/penstock/internal/store"
)

// target fills in what is proved: the store, and how its drainers are started.
// end lets go of it.
func (c *proveCmd) target(r *run, self string, o *prove.Options) (end func(), err error) {
	if c.Redis == "" {
		return c.embedded(self, o)
	}
	log := slog.New(slog.DiscardHandler)
	if c.Verbose {
		log = logger(r.Err, slog.LevelInfo)
	}
	engine, err := store.Open(r.ctx, store.Options{RedisURL: c.Redis, Init: c.Init, Partitions: c.Partitions, Logger: log})
	if err != nil {
		return nil, &ended{ExitUnreachable, err}
	}
	o.Store = prove.Engine(engine)
	o.Drainer = func(int) prove.Command {
		// In the environment and not among the arguments, where everybody on the
		// machine could read a password.
		return prove.Command{
			Path: self,
			Args: []string{"drainer", "--listen", "127.0.0.1:0", "--partitions", strconv.Itoa(c.Partitions), egress.Flag, strings.Join(egress.Loopback, ",")},
			Env:  append(os.Environ(), "PENSTOCK_REDIS="+c.Redis),
		}
	}
	return func() { _ = engine.Close() }, nil // the verdict is known by then
}

// embedded proves penstock up, in a directory and on a port of its own.
func (c *proveCmd) embedded(self string, o *prove.Options) (end func(), err error) {
	dir, err := os.MkdirTemp("", "penstock-prove-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the proof: %w", err)
	}
	remove := func() { _ = os.RemoveAll(dir) }
	addr, err := freeAddr()
	if err != nil {
		remove()
		return nil, err
	}
	api, err := client.New("http://"+addr, nil)
	if err != nil {
		remove()
		return nil, err
	}
	o.Store = prove.Ingress(api)
	o.Drainer = func(int) prove.Command {
		return prove.Command{Path: self, Args: []string{"up", "--tether", "--data", dir, "--listen", addr, egress.Flag, strings.Join(egress.Loopback, ",")}}
	}
	return remove, nil
}

// freeAddr finds a port of loopback that is free now. The process that will
// listen there must get the same one each time it is started.
func freeAddr() (string, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String(), nil
}
