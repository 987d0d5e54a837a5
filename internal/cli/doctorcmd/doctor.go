// Package doctorcmd has penstock doctor.
package doctorcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/penstock/penstock/deferred"
	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/app/store"
	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/doctor"
	"github.com/penstock/penstock/internal/cli/embedded"
	"github.com/penstock/penstock/internal/cli/login"
	"github.com/penstock/penstock/internal/cli/operator"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
)

// Cmd is penstock doctor.
type Cmd struct {
	command.Connection
	Redis  string `placeholder:"URL"`
	Data   string `help:"Directory of an embedded store to examine, also while \"penstock up\" uses it." placeholder:"DIR"`
	Prefix string `help:"Prefix of the keys on Redis." default:"ps" placeholder:"TEXT"`
	app.NATSFlags
	app.EgressFlags
	app.SecretsFlags
	command.Output
}

// LongHelp returns the help texts that are too long for tags; see app.SetLongHelp.
func (Cmd) LongHelp() map[string]string {
	return map[string]string{
		"redis": "URL of a store on Redis to check. Without --redis and --data, only the server is checked.",
	}
}

// Help implements kong.HelpProvider.
func (Cmd) Help() string {
	return `Checks the store, the settings of its Redis, clocks, the overflow, drainers, queues, targets, the disk
and file modes. It prints each problem with a command that fixes it. It changes nothing, and connects
to targets without delivering. Run it where drainers run, with their flags: --nats, --secrets-dir, and
--egress-allow if the ingress has another value.

With --redis or --data it opens the store and also checks what the API does not show.

Examples:
  penstock doctor
  penstock doctor --redis redis://localhost:6379/0 --nats nats://localhost:4222
  penstock doctor --data /var/lib/penstock
  penstock doctor -o json | jq -r '.[] | select(.verdict != "ok") | .do'

Exit codes: 0 no problems, perhaps warnings; 1 problems; 2 invalid command line.`
}

// Run runs the command.
func (c *Cmd) Run(r *command.Run) error {
	if c.Redis != "" && c.Data != "" {
		return command.Usage(errors.New("--redis and --data cannot be used together"))
	}
	if c.Data != "" {
		if info, err := os.Stat(c.Data); err != nil || !info.IsDir() {
			return command.Usage(fmt.Errorf("--data %s: no such directory", c.Data))
		}
	}
	if _, err := c.Guard(); err != nil {
		return command.Usage(err)
	}
	source, err := c.Source()
	if err != nil {
		return command.Usage(err)
	}
	p := &doctor.Patient{
		Version: ops.Version, Start: "drainer --redis URL", Disk: c.Data, Free: embedded.FreeBytes, Files: c.files(),
	}
	log := slog.New(slog.DiscardHandler)
	app.QuietRedis(log)
	look, done, err := c.Look("penstock doctor", log)
	if err != nil {
		p.Overflow = func(context.Context) ([]deferred.StreamState, error) { return nil, err }
	} else {
		defer done()
		p.Overflow = look
	}
	end, err := c.reach(r, p, log)
	if err != nil {
		return err
	}
	defer end()
	guard, err := c.guardOf(r.Ctx, p)
	if err != nil {
		return err
	}
	p.Target, p.Dial = app.ValidTarget(guard, source), guard.Dialer(net.Dialer{})
	found := doctor.Examine(r.Ctx, p)
	if err := r.Ctx.Err(); err != nil {
		return err
	}
	if c.JSON() {
		err = command.PrintJSON(r.Out, found)
	} else {
		width, _ := command.Width(r.Out)
		_, err = fmt.Fprint(r.Out, findings(found, width))
	}
	if err == nil && doctor.Worst(found) == doctor.Wrong {
		return command.Quiet(command.ExitFailed)
	}
	return err
}

// guardOf returns the egress guard of --egress-allow or else of the server.
func (c *Cmd) guardOf(ctx context.Context, p *doctor.Patient) (*egress.Guard, error) {
	allow := c.EgressFlags
	if len(allow.EgressAllow) == 0 && p.API != nil && !p.Direct {
		ctx, cancel := context.WithTimeout(ctx, storePatience)
		defer cancel()
		// Without the permission it allows only public addresses; other errors show in the checks of the server.
		if s, err := p.API.Store(ctx); err == nil {
			allow.EgressAllow = s.EgressAllow
		}
	}
	return allow.Guard()
}

// storePatience is the time that the server has to answer.
const storePatience = 5 * time.Second

// reach connects to the server, or opens the store itself.
func (c *Cmd) reach(r *command.Run, p *doctor.Patient, log *slog.Logger) (end func(), err error) {
	end = func() {}
	options := store.Options{RedisURL: c.Redis, Prefix: c.Prefix, Logger: log}
	switch {
	case c.Redis != "":
		shown := show.Quoted(secrets.MaskURL(c.Redis))
		p.Reach, p.Start = "redis-cli -u "+shown+" ping", "drainer --redis "+shown
		p.Servers = func(ctx context.Context) ([]redisq.Server, error) { return store.Servers(ctx, options) }
	case c.Data != "":
		p.Start = "penstock up --data " + show.Quoted(c.Data)
		p.Reach = p.Start
		if socket := filepath.Join(c.Data, operator.SocketFile); listening(socket) {
			if socket, err = filepath.Abs(socket); err != nil {
				return end, err
			}
			p.API, err = c.Client("unix://" + socket)
			return end, err
		}
		options.DataPath, options.ReadOnly = c.Data, true
		if _, err := os.Stat(filepath.Join(c.Data, store.FileName)); err != nil {
			p.Unreached = fmt.Errorf("no embedded store (%s) in %s", store.FileName, c.Data)
			return end, nil
		}
	default:
		p.Reach = "penstock up"
		p.API, err = r.Client()
		return end, err
	}
	engine, err := store.Open(r.Ctx, options)
	if ops.IsMisuse(err) {
		return end, err
	}
	if err != nil {
		if p.Unreached = err; errors.Is(err, queue.ErrNoStore) {
			p.Reach = "penstock import --help"
		}
		return end, nil
	}
	api := newInProcess(engine)
	p.Direct = true
	p.API, err = client.New(client.DefaultURL, &http.Client{Transport: api})
	return func() { api.Close(); _ = engine.Close() }, err
}

// listening reports whether a process listens at a socket.
func listening(path string) bool {
	conn, err := new(net.Dialer).DialContext(context.Background(), "unix", path)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

// files returns the files of an embedded store and of the user that must be private.
func (c *Cmd) files() (all []doctor.File) {
	private := func(path string) {
		all = append(all, doctor.File{Path: path, Check: login.Private, Fix: "chmod 600 " + show.Quoted(path)})
	}
	if c.Data != "" {
		all = append(all, doctor.File{Path: c.Data, Check: checkWriters, Fix: "chmod 700 " + show.Quoted(c.Data)})
		private(filepath.Join(c.Data, operator.TokenFile))
	}
	if kept, err := login.Default(); err == nil {
		private(kept.Path)
	}
	if file := cmp.Or(c.TokenFile, os.Getenv(command.EnvTokenFile)); file != "" {
		private(file)
	}
	return all
}

// checkWriters returns an error if other users can replace files of a directory.
func checkWriters(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if mode := info.Mode().Perm(); operator.OthersWrite(mode) {
		return fmt.Errorf("others can write to %s (mode %04o) and replace files there", dir, mode)
	}
	return nil
}

// pageWidth is the width of findings without a terminal.
const pageWidth = 100

// findings formats findings for a terminal of a width, 0 without one. Commands are not wrapped, so that they can be
// copied.
func findings(found []doctor.Finding, width int) string {
	if width == 0 {
		width = pageWidth
	}
	const margin = 19 // of the text
	var b strings.Builder
	for _, f := range found {
		head := fmt.Sprintf("%-8s  %-7s", f.Check, f.Verdict)
		for _, line := range show.Wrapped(show.Text(f.What), max(width-margin, 30)) {
			fmt.Fprintf(&b, "%-*s%s\n", margin, head, line)
			head = ""
		}
		if f.Do != "" {
			fmt.Fprintf(&b, "%-*s$ %s\n", margin, "", show.Text(f.Do))
		}
	}
	return b.String()
}
