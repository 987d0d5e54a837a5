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
	"github.com/penstock/penstock/internal/app/store"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/prove"
)

// target is what is proved: the store, how its processes are started, and where the ingresses among them listen.
type target struct {
	store            prove.Installation
	drainer, ingress func(i int) prove.Command
	urls             []string
	end              func() // lets go of it
}

// target opens what is proved, with so many ingresses if they are started.
func (c *proveCmd) target(r *run, self string, ingresses int) (*target, error) {
	addrs := make([]string, ingresses)
	for i := range addrs {
		addr, err := freeAddr()
		if err != nil {
			return nil, err
		}
		addrs[i] = addr
	}
	t := &target{}
	for _, addr := range addrs {
		t.urls = append(t.urls, "http://"+addr)
	}
	if c.Redis == "" {
		return t, c.embedded(t, self, addrs[0])
	}
	log := slog.New(slog.DiscardHandler)
	if c.Verbose {
		log = logger(r.Err, slog.LevelInfo)
	}
	engine, err := store.Open(r.ctx, store.Options{RedisURL: c.Redis, Init: c.Init, Partitions: c.Partitions, Logger: log})
	if err != nil {
		return nil, &ended{ExitUnreachable, err}
	}
	t.store = prove.Engine(engine)
	process := func(what, addr string) prove.Command {
		// In the environment and not among the arguments, where everybody on the
		// machine could read a password.
		return prove.Command{
			Path: self,
			Args: []string{
				what, "--listen", addr, "--partitions", strconv.Itoa(c.Partitions), egress.Flag, strings.Join(egress.Loopback, ","),
			},
			// Nobody is to notice that one ends, nobody but this process asks it, and it is known by its process.
			Env: append(
				os.Environ(), "PENSTOCK_REDIS="+c.Redis, "PENSTOCK_DRAIN_DELAY=0", "PENSTOCK_NO_AUTH=true", "PENSTOCK_NAME=",
			),
		}
	}
	t.drainer = func(int) prove.Command { return process("drainer", "127.0.0.1:0") }
	t.ingress = func(i int) prove.Command { return process("ingress", addrs[i]) }
	t.end = func() { _ = engine.Close() } // the verdict is known by then
	return t, nil
}

// embedded proves penstock up, in a directory and on a port of its own.
func (c *proveCmd) embedded(t *target, self, addr string) error {
	dir, err := os.MkdirTemp("", "penstock-prove-")
	if err != nil {
		return fmt.Errorf("make a directory for the proof: %w", err)
	}
	t.end = func() { _ = os.RemoveAll(dir) }
	api, err := client.New(t.urls[0], nil)
	if err != nil {
		t.end()
		return err
	}
	t.store = prove.Ingress(api)
	t.drainer = func(int) prove.Command {
		return prove.Command{Path: self, Args: []string{
			"up", "--tether", "--no-auth", "--data", dir, "--listen", addr, egress.Flag, strings.Join(egress.Loopback, ","),
		}}
	}
	t.ingress = t.drainer
	return nil
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
