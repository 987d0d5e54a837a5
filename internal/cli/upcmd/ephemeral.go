package upcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/embedded"
	"github.com/penstock/penstock/internal/cli/memory"
)

// EphemeralFlags are the flags of servers for tests.
type EphemeralFlags struct {
	Ephemeral bool   `help:"For tests: keep everything in memory, listen on a free port, and end with the parent process."`
	Clock     string `help:"Clock of --ephemeral: real or virtual." default:"real" enum:"real,virtual" placeholder:"CLOCK"`
}

const (
	defaultData   = "./penstock-data"
	defaultListen = "127.0.0.1:8080"
)

func (c *Cmd) validateEphemeral() error {
	switch {
	case !c.Ephemeral && c.Clock == "virtual":
		return errors.New("--clock virtual: needs --ephemeral; the clock of a store that is kept cannot be advanced")
	case c.Ephemeral && c.Data != defaultData:
		return errors.New("--data: must not be given with --ephemeral, which keeps nothing")
	}
	return nil
}

// address is what a server for tests prints when it is ready.
type address struct {
	URL   string `json:"url"`
	Token string `json:"token,omitempty"`
	PID   int    `json:"pid"`
}

// runEphemeral runs a server for tests.
func (c *Cmd) runEphemeral(r *command.Run) (err error) {
	ctx, cancel := endWithParent(r)
	defer cancel()
	log := command.Logger(r.Err, c.LogLevel)
	app.QuietHTTP(log)
	if c.Data, err = os.MkdirTemp("", "penstock-"); err != nil {
		return fmt.Errorf("make a directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(c.Data)) }()
	if c.Listen == defaultListen {
		c.Listen = "127.0.0.1:0"
	}
	o, err := c.options(log)
	if err != nil {
		return command.Usage(err)
	}
	o.Ephemeral, o.Virtual = true, c.Clock == "virtual"
	memory.CollectBefore(o.Memory)
	server, err := embedded.Open(ctx, o)
	if err != nil {
		return err
	}
	a := address{URL: server.URL(), PID: os.Getpid()}
	if server.TokenFile != "" {
		token, err := os.ReadFile(server.TokenFile)
		if err != nil {
			return fmt.Errorf("read the token: %w", err)
		}
		a.Token = strings.TrimSpace(string(token))
	}
	line, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("encode the address: %w", err)
	}
	if _, err := fmt.Fprintf(r.Out, "%s\n", line); err != nil {
		return fmt.Errorf("print the address: %w", err)
	}
	return server.Run(ctx)
}

// parentEvery is how often to look whether the parent process is still there.
const parentEvery = 250 * time.Millisecond

// endWithParent returns a context that ends with the parent process, or when a pipe on standard input is closed.
func endWithParent(r *command.Run) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.Ctx)
	if f, is := r.In.(*os.File); !is || isPipe(f) {
		ctx, cancel = command.Tethered(ctx, r.In)
	}
	parent := os.Getppid()
	go func() {
		tick := time.NewTicker(parentEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if os.Getppid() != parent {
					cancel()
				}
			}
		}
	}()
	return ctx, cancel
}

func isPipe(f *os.File) bool {
	s, err := f.Stat()
	return err == nil && s.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) != 0
}
