package provecmd

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
	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/prove"
)

// target is the installation to prove: its store, the commands of its processes, and the URLs of its ingresses.
type target struct {
	store            prove.Installation
	drainer, ingress func(i int) prove.Command
	urls             []string
	end              func() // releases it
}

// target opens the installation, with an address for each ingress.
func (c *Cmd) target(r *command.Run, self string, ingresses int) (*target, error) {
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
		log = command.Logger(r.Err, slog.LevelInfo)
	}
	engine, err := store.Open(r.Ctx, store.Options{RedisURL: c.Redis, Init: c.Init, Partitions: c.Partitions, Logger: log})
	if err != nil {
		return nil, command.Fail(command.ExitUnreachable, err)
	}
	t.store = prove.Engine(engine)
	process := func(what, addr string) prove.Command {
		return prove.Command{
			Path: self,
			Args: []string{
				what, "--listen", addr, "--partitions", strconv.Itoa(c.Partitions), egress.Flag, strings.Join(egress.Loopback, ","),
			},
			// The URL is not an argument, because other users could read its password there. The process need not delay its
			// end or authenticate callers, since only this process uses it.
			Env: append(
				os.Environ(), "PENSTOCK_REDIS="+c.Redis, "PENSTOCK_DRAIN_DELAY=0", "PENSTOCK_NO_AUTH=true", "PENSTOCK_NAME=",
			),
		}
	}
	t.drainer = func(int) prove.Command { return process("drainer", "127.0.0.1:0") }
	t.ingress = func(i int) prove.Command { return process("ingress", addrs[i]) }
	t.end = func() { _ = engine.Close() } // the verdict is already known
	return t, nil
}

// embedded prepares penstock up, with a temporary directory and a port of its own.
func (c *Cmd) embedded(t *target, self, addr string) error {
	dir, err := os.MkdirTemp("", "penstock-prove-")
	if err != nil {
		return fmt.Errorf("create a directory for the proof: %w", err)
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

// upgrading returns commands that start each process with the other build after its first start.
func (c *Cmd) upgrading(command func(i int) prove.Command) func(i int) prove.Command {
	if c.Upgrade == "" {
		return command
	}
	started := map[int]bool{}
	return func(i int) prove.Command {
		p := command(i)
		if started[i] {
			p.Path = c.Upgrade
		}
		started[i] = true
		return p
	}
}

// freeAddr returns an address on loopback that is free now. A process must get the same one each time it is started.
func freeAddr() (string, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String(), nil
}
