package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/penstock/penstock/deferred"
	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/app/store"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/cli/doctor"
	"github.com/penstock/penstock/internal/cli/login"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
)

type doctorCmd struct {
	connection
	Redis  string `placeholder:"URL"`
	Data   string `help:"Look at the directory of an embedded store; penstock up may run on it." placeholder:"DIR"`
	Prefix string `help:"What the keys on Redis begin with." default:"ps" placeholder:"TEXT"`
	app.NATSFlags
	app.EgressFlags
	app.SecretsFlags
	output
}

// LongHelp is the help that is too long for the tags.
func (doctorCmd) LongHelp() map[string]string {
	return map[string]string{
		"redis": "Look at this store itself, and at its Redis: the URL as ingress takes it. Without it and --data " +
			"an ingress is asked.",
	}
}

// Help is shown below the flags.
func (doctorCmd) Help() string {
	return `Looks at the store, the settings of its Redis, clocks, the overflow, drainers, queues, targets, the disk
and the modes of files, and says what is wrong and which command mends it. It changes nothing, and
connects to targets without delivering. Run it where drainers run, with their flags: --nats,
--secrets-dir, and --egress-allow where it is not that of the ingress.

An ingress tells less than the store itself: --redis or --data looks at that too.

Examples:
  penstock doctor
  penstock doctor --redis redis://localhost:6379/0 --nats nats://localhost:4222
  penstock doctor --data /var/lib/penstock
  penstock doctor -o json | jq -r '.[] | select(.verdict != "ok") | .do'

Exit codes: 0 nothing is wrong, though there may be warnings; 1 something is; 2 the command line
cannot be understood.`
}

func (c *doctorCmd) Run(r *run) error {
	if c.Redis != "" && c.Data != "" {
		return usage(errors.New("--redis and --data: give one of them; a store is on a Redis or in a directory"))
	}
	if c.Data != "" {
		if info, err := os.Stat(c.Data); err != nil || !info.IsDir() {
			return usage(fmt.Errorf("--data %s: there is no such directory", c.Data))
		}
	}
	if _, err := c.Guard(); err != nil {
		return usage(err)
	}
	source, err := c.Source()
	if err != nil {
		return usage(err)
	}
	p := &doctor.Patient{
		Version: ops.Version, Start: "drainer --redis URL", Disk: c.Data, Free: freeBytes, Files: c.files(),
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
	guard, err := c.guardOf(r.ctx, p)
	if err != nil {
		return err
	}
	p.Target, p.Dial = app.ValidTarget(guard, source), guard.Dialer(net.Dialer{})
	found := doctor.Examine(r.ctx, p)
	if err := r.ctx.Err(); err != nil {
		return err
	}
	if c.json() {
		err = printJSON(r.Out, found)
	} else {
		width, _ := terminal(r.Out)
		_, err = fmt.Fprint(r.Out, findings(found, width))
	}
	if err == nil && doctor.Worst(found) == doctor.Wrong {
		return told(ExitFailed)
	}
	return err
}

// guardOf is what --egress-allow says, or without it the server that is asked.
func (c *doctorCmd) guardOf(ctx context.Context, p *doctor.Patient) (*egress.Guard, error) {
	allow := c.EgressFlags
	if len(allow.EgressAllow) == 0 && p.API != nil && !p.Direct {
		ctx, cancel := context.WithTimeout(ctx, storePatience)
		defer cancel()
		// Whoever may not ask that goes by public addresses, and what ails the server is found by its checks.
		if s, err := p.API.Store(ctx); err == nil {
			allow.EgressAllow = s.EgressAllow
		}
	}
	return allow.Guard()
}

// storePatience is how long the server may take to tell that.
const storePatience = 5 * time.Second

// reach finds who tells of the store: an ingress, or the store itself.
func (c *doctorCmd) reach(r *run, p *doctor.Patient, log *slog.Logger) (end func(), err error) {
	end = func() {}
	options := store.Options{RedisURL: c.Redis, Prefix: c.Prefix, Logger: log}
	switch {
	case c.Redis != "":
		shown := quoted(secrets.MaskURL(c.Redis))
		p.Reach, p.Start = "redis-cli -u "+shown+" ping", "drainer --redis "+shown
		p.Servers = func(ctx context.Context) ([]redisq.Server, error) { return store.Servers(ctx, options) }
	case c.Data != "":
		p.Start = "penstock up --data " + quoted(c.Data)
		p.Reach = p.Start
		if socket := filepath.Join(c.Data, socketFile); answers(socket) {
			if socket, err = filepath.Abs(socket); err != nil {
				return end, err
			}
			p.API, err = c.client("unix://" + socket)
			return end, err
		}
		options.DataPath, options.ReadOnly = c.Data, true
		if _, err := os.Stat(filepath.Join(c.Data, store.FileName)); err != nil {
			p.Unreached = fmt.Errorf("there is no embedded store (%s) in %s", store.FileName, c.Data)
			return end, nil
		}
	default:
		p.Reach = "penstock up"
		p.API, err = r.client()
		return end, err
	}
	engine, err := store.Open(r.ctx, options)
	if ops.IsMisuse(err) {
		return end, err
	}
	if err != nil {
		if p.Unreached = err; errors.Is(err, queue.ErrNoStore) {
			p.Reach = "penstock import --help"
		}
		return end, nil
	}
	api := overEngine(engine)
	p.Direct = true
	p.API, err = client.New(client.DefaultURL, api.http())
	return func() { api.close(); _ = engine.Close() }, err
}

// answers reports whether somebody listens at a socket.
func answers(path string) bool {
	conn, err := new(net.Dialer).DialContext(context.Background(), "unix", path)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

// files are those that are nobody else's: of an embedded store, and of whoever runs the tool.
func (c *doctorCmd) files() (all []doctor.File) {
	private := func(path string) {
		all = append(all, doctor.File{Path: path, Check: login.Private, Mend: "chmod 600 " + quoted(path)})
	}
	if c.Data != "" {
		all = append(all, doctor.File{Path: c.Data, Check: keptFromOthers, Mend: "chmod 700 " + quoted(c.Data)})
		private(filepath.Join(c.Data, tokenFile))
	}
	if kept, err := login.Default(); err == nil {
		private(kept.Path)
	}
	if c.TokenFile != "" {
		private(c.TokenFile)
	}
	return all
}

// keptFromOthers says whether nobody else may put files in place of those of a directory.
func keptFromOthers(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if mode := info.Mode().Perm(); othersWrite(mode) {
		return fmt.Errorf("others may write into %s, of mode %04o, and put files of theirs there", dir, mode)
	}
	return nil
}

func othersWrite(mode fs.FileMode) bool { return auth.KnowsPeers && mode&0o022 != 0 }

// pageWidth is how wide findings are where no terminal says it.
const pageWidth = 100

// findings prints each finding in lines that fit a terminal, 0 wide if it is none. A command keeps its line whole, so
// that it can be copied.
func findings(found []doctor.Finding, width int) string {
	if width == 0 {
		width = pageWidth
	}
	const margin = 19 // of the columns before the text
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
