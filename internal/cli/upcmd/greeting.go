package upcmd

import (
	"fmt"
	"io"

	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/embedded"
	"github.com/penstock/penstock/internal/cli/show"
)

// sinkPort is the default port of penstock sink.
const sinkPort = 9000

// greeting prints commands to paste.
type greeting struct {
	w      io.Writer
	url    string
	socket string // needs no token; may be empty
	token  string // file of the token; empty if none is needed
}

// greet prints the address of the server, and commands to try it with.
func (c *Cmd) greet(r *command.Run, server *embedded.Server, guard *egress.Guard, socket string) error {
	url := server.URL()
	infos, err := server.Engine.List(r.Ctx, "", 1)
	if err != nil {
		return fmt.Errorf("list the queues: %w", err)
	}
	_, _ = fmt.Fprintf(r.Out, "listening on %s\ndata in %s\n", url, c.Data)
	if c.Console {
		signIn := ""
		if server.TokenFile != "" {
			signIn = ", sign in with the token in " + server.TokenFile
		}
		_, _ = fmt.Fprintf(r.Out, "console at %s%s/console/%s\n", url, c.PathPrefix, signIn)
	}
	_, _ = fmt.Fprintln(r.Out)
	g := &greeting{w: r.Out, url: url, socket: socket, token: server.TokenFile}
	name, pulls := "hello", false
	switch {
	case len(infos) > 0:
		name, pulls = infos[0].Spec.Name, infos[0].Spec.Pull
	case guard.Check("127.0.0.1", sinkPort) == nil:
		g.print("# in another terminal: a receiver that shows what arrives\npenstock sink\n\n")
		g.print("# create a queue: 5 jobs per second to that receiver\n")
		g.curl("-X PUT %s/v1/queues/hello", `{"rate":"5/s","deliver":{"http":{"url":"http://127.0.0.1:9000/"}}}`)
	default:
		pulls = true
		g.print("# create a queue: 5 jobs per second to workers that reserve them. (Targets on this machine need " +
			"--egress-allow 127.0.0.1.)\n")
		g.curl("-X PUT %s/v1/queues/hello", `{"rate":"5/s","pull":true}`)
	}
	g.print("# append a job\n")
	g.curl("%s/v1/queues/"+name+"/jobs", `{"payload":{"to":"a@example.com"}}`)
	if pulls {
		g.print("# reserve a job, as a worker does\n")
		g.curl("%s/v1/queues/"+name+"/leases", `{"wait":"10s"}`)
	}
	g.print("# and watch\npenstock --server %s queue ls --watch\n", url)
	return nil
}

func (g *greeting) print(format string, args ...any) { _, _ = fmt.Fprintf(g.w, format, args...) }

// curl prints a request with a body; the %s of path is the server. It puts no token into a command line, because all
// users of the machine can see command lines.
func (g *greeting) curl(path, body string) {
	switch {
	case g.token == "":
		g.print("curl -sS "+path, g.url)
	case g.socket != "":
		g.print("curl -sS --unix-socket %s "+path, show.Quoted(g.socket), "http://localhost")
	default:
		g.print(`echo "Authorization: Bearer $(cat %s)" | curl -sS -H @- `+path, show.Quoted(g.token), g.url)
	}
	g.print(" -H 'Content-Type: application/json' -d '%s'\n\n", body)
}
