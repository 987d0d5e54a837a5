// Package sinkcmd has the test receivers: penstock sink and penstock sms-simulator.
package sinkcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/cli/sink"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/internal/provider"
)

// Cmd is penstock sink.
type Cmd struct {
	Listen     string        `default:"127.0.0.1:9000" placeholder:"ADDR"`
	SMTP       string        `name:"smtp" placeholder:"ADDR"`
	Insecure   bool          `help:"Allow listening beyond loopback."`
	Latency    time.Duration `help:"Time before each answer." default:"0s"`
	Fail       share         `help:"Share of requests that fail, such as 10%." default:"0%" placeholder:"SHARE"`
	Status     int           `help:"Status of failures; 429 asks to slow down." default:"503"`
	RetryAfter time.Duration `help:"Retry-After of failures, in whole seconds; 0s sends none." default:"0s"`
	Drop       share         `help:"Share of requests read but closed without an answer." default:"0%" placeholder:"SHARE"`
	Hang       share         `help:"Share of requests that are never answered." default:"0%" placeholder:"SHARE"`
	Refuse     share         `help:"Share of connections closed before anything is read." default:"0%" placeholder:"SHARE"`
	Quiet      bool          `help:"Print only totals, at the end." short:"q"`
	ProviderFlags
	command.Output
}

// LongHelp returns the help texts that are too long for tags; see app.SetLongHelp.
func (Cmd) LongHelp() map[string]string {
	return map[string]string{
		"listen": "Address to listen on, HOST:PORT. Port 0 takes a free port.",
		"smtp":   "Address to receive mail on, such as 127.0.0.1:2525; without TLS, and with any login.",
	}
}

// Help implements kong.HelpProvider.
func (Cmd) Help() string {
	return `Prints every request and answers 200, until Ctrl-C; then it prints the number of requests, in total and
at most in one second. It stores nothing. A mail counts as a request at its MAIL FROM; a failure is
451, or 554 for a --status of 400 to 499 other than 429.
As a target on this machine it needs --egress-allow 127.0.0.1 of up, or of ingress and drainer.

--provider simulates the API of OpenAI (/v1/chat/completions, /v1/models), of Anthropic (/v1/messages,
/v1/models), or a plain API that answers any request. Each API key has its own budgets. openai and
anthropic refill them continuously; plain renews its requests as a whole, each period. Calls over a
budget get 429 with the provider's headers and body. The tokens of a call are random: the median is
400, one call in 100 needs more than 6000. They are charged when the call is answered. The models are
sim-large and sim-small. GET /stats shows calls, 429s, how much of each budget was used, and the slack
that the window law needs.

Examples:
  penstock sink
  penstock sink --smtp 127.0.0.1:2525
  penstock sink --latency 200ms --fail 10% --status 503 --retry-after 3s
  penstock sink --hang 1% --drop 1% --refuse 5%
  penstock sink --fail 100% --status 429 --retry-after 30s
  penstock sink --provider openai --requests 500/m --tokens 200000/m --key sk-test`
}

// share is a fraction, written as 10% or 0.1.
type share float64

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *share) UnmarshalText(text []byte) error {
	number, percent := strings.CutSuffix(string(text), "%")
	f, err := strconv.ParseFloat(number, 64)
	if percent {
		f /= 100
	}
	if err != nil || !(f >= 0 && f <= 1) {
		return fmt.Errorf("%q must be a share, such as 10%% or 0.1", text)
	}
	*s = share(f)
	return nil
}

// Run runs the command.
func (c *Cmd) Run(r *command.Run) error {
	if c.Latency < 0 || c.Latency > time.Hour || c.RetryAfter < 0 || c.RetryAfter > 24*time.Hour {
		return command.Usage(errors.New("--latency must be from 0s to 1h, and --retry-after from 0s to 24h"))
	}
	simulator, err := c.simulator()
	if err != nil {
		return command.Usage(err)
	}
	o := sink.Options{
		Latency: c.Latency, Fail: float64(c.Fail), Status: c.Status, RetryAfter: c.RetryAfter,
		Drop: float64(c.Drop), Hang: float64(c.Hang), Refuse: float64(c.Refuse), Shown: c.show(r),
	}
	if simulator != nil {
		o.Provider = simulator
	}
	s, err := sink.New(o)
	if err != nil {
		return command.Usage(err)
	}
	listener, err := c.bind(r.Ctx, "--listen", c.Listen)
	if err != nil {
		return err
	}
	serve := []func(context.Context) error{func(ctx context.Context) error { return s.Serve(ctx, listener) }}
	at := fmt.Sprintf("http://%s/", listener.Addr())
	if c.SMTP != "" {
		mails, err := c.bind(r.Ctx, "--smtp", c.SMTP)
		if err != nil {
			return errors.Join(err, listener.Close())
		}
		serve = append(serve, func(ctx context.Context) error { return s.ServeSMTP(ctx, mails) })
		at += fmt.Sprintf(" and smtp://%s", mails.Addr())
	}
	r.Say("receiving at %s", at)
	if err := ops.RunAll(r.Ctx, serve...); err != nil {
		return err
	}
	return c.end(r, s.Totals(), simulator)
}

// bind listens on the address of a flag.
func (c *Cmd) bind(ctx context.Context, flag, addr string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, command.Usage(fmt.Errorf("%s %q: must be HOST:PORT, such as 127.0.0.1:9000", flag, addr))
	}
	if ip, err := netip.ParseAddr(host); !c.Insecure && host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return nil, command.Usage(fmt.Errorf("%s %s: other machines could reach it and print to this terminal; "+
			"use --insecure to allow it", flag, addr))
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, ops.BindError(flag, addr, err)
	}
	return listener, nil
}

// show returns a function that prints requests.
func (c *Cmd) show(r *command.Run) func(sink.Request) {
	if c.Quiet {
		return nil
	}
	if c.JSON() {
		return func(q sink.Request) { _ = command.PrintLine(r.Out, q) } // nobody may read standard output
	}
	return func(q sink.Request) {
		of := show.Text(q.Queue + " " + q.ID)
		if q.Attempt != "" && q.Attempt != "1" {
			of += ", attempt " + show.Text(q.Attempt)
		}
		body := show.Text(q.Body)
		if q.Cut() {
			body += fmt.Sprintf("... (%d bytes)", q.Bytes)
		}
		_, _ = fmt.Fprintf(r.Out, "%s  %s %s  %s  %s  %s\n",
			q.At.Format("15:04:05.000"), show.Text(q.Method), show.Text(q.Path), q.Answer, strings.TrimSpace(of), body)
	}
}

// end prints the totals.
func (c *Cmd) end(r *command.Run, t sink.Totals, simulator *provider.Simulator) error {
	if c.JSON() {
		if c.Quiet {
			return command.PrintLine(r.Out, totals{t, statsOf(simulator)})
		}
		return nil
	}
	answers := []string{}
	for _, answer := range slices.Sorted(maps.Keys(t.Answers)) {
		text := answer
		if code, err := strconv.Atoi(answer); err == nil {
			text += " " + http.StatusText(code)
		}
		answers = append(answers, fmt.Sprintf("%d %s", t.Answers[answer], text))
	}
	if t.Refused > 0 {
		answers = append(answers, fmt.Sprintf("%d connections refused", t.Refused))
	}
	_, err := fmt.Fprintf(r.Out, "%d requests in %s: %s; at most %d in any second\n",
		t.Requests, show.Duration(t.For), strings.Join(answers, ", "), t.MostInASecond)
	if err != nil || simulator == nil {
		return err
	}
	_, err = io.WriteString(r.Out, budgets(simulator.Stats()))
	return err
}
