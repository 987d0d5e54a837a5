package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/cli/sink"
	"github.com/penstock/penstock/internal/ops"
)

type sinkCmd struct {
	Listen     string        `default:"127.0.0.1:9000" placeholder:"ADDR"`
	SMTP       string        `name:"smtp" placeholder:"ADDR"`
	Insecure   bool          `help:"Listen beyond loopback."`
	Latency    time.Duration `help:"How long each answer takes." default:"0s"`
	Fail       share         `help:"How many requests fail, such as 10%." default:"0%" placeholder:"SHARE"`
	Status     int           `help:"What those are answered that fail; 429 asks to slow down." default:"503"`
	RetryAfter time.Duration `help:"When they are told to come back, in whole seconds; 0s tells nothing." default:"0s"`
	Drop       share         `default:"0%" placeholder:"SHARE"`
	Hang       share         `help:"How many requests are never answered." default:"0%" placeholder:"SHARE"`
	Refuse     share         `help:"How many connections end before anything is read." default:"0%" placeholder:"SHARE"`
	Quiet      bool          `help:"Show no requests, only what they were in the end." short:"q"`
	output
}

// LongHelp is the help that is too long for the tags.
func (sinkCmd) LongHelp() map[string]string {
	return map[string]string{
		"listen": "Where to listen, HOST:PORT; port 0 takes a free one.",
		"smtp":   "Where to take mail too, such as 127.0.0.1:2525; without TLS, and with any login.",
		"drop":   "How many requests are taken and not answered: the connection ends.",
	}
}

// Help is shown below the flags.
func (sinkCmd) Help() string {
	return `Answers 200 to everything, and shows it, until Ctrl-C; then it tells how many came and how many
at most in one second. It keeps nothing. A mail counts as a request when its MAIL FROM comes; one that
fails is answered 451, or 554 for a --status of 400 to 499 other than 429.
A target on this machine is one that --egress-allow 127.0.0.1 of up, ingress and drainer must allow.

Examples:
  penstock sink
  penstock sink --smtp 127.0.0.1:2525
  penstock sink --latency 200ms --fail 10% --status 503 --retry-after 3s
  penstock sink --hang 1% --drop 1% --refuse 5%
  penstock sink --fail 100% --status 429 --retry-after 30s`
}

// share is a part of all, given as 10% or as 0.1.
type share float64

// UnmarshalText reads one.
func (s *share) UnmarshalText(text []byte) error {
	number, percent := strings.CutSuffix(string(text), "%")
	f, err := strconv.ParseFloat(number, 64)
	if percent {
		f /= 100
	}
	if err != nil || !(f >= 0 && f <= 1) {
		return fmt.Errorf("%q must be a share of all, such as 10%% or 0.1", text)
	}
	*s = share(f)
	return nil
}

func (c *sinkCmd) Run(r *run) error {
	if c.Latency < 0 || c.Latency > time.Hour || c.RetryAfter < 0 || c.RetryAfter > 24*time.Hour {
		return usage(errors.New("--latency must be from 0s to 1h, --retry-after from 0s to 24h"))
	}
	s, err := sink.New(sink.Options{
		Latency: c.Latency, Fail: float64(c.Fail), Status: c.Status, RetryAfter: c.RetryAfter,
		Drop: float64(c.Drop), Hang: float64(c.Hang), Refuse: float64(c.Refuse), Shown: c.show(r),
	})
	if err != nil {
		return usage(err)
	}
	listener, err := c.bind(r.ctx, "--listen", c.Listen)
	if err != nil {
		return err
	}
	serve := []func(context.Context) error{func(ctx context.Context) error { return s.Serve(ctx, listener) }}
	at := fmt.Sprintf("http://%s/", listener.Addr())
	if c.SMTP != "" {
		mails, err := c.bind(r.ctx, "--smtp", c.SMTP)
		if err != nil {
			return errors.Join(err, listener.Close())
		}
		serve = append(serve, func(ctx context.Context) error { return s.ServeSMTP(ctx, mails) })
		at += fmt.Sprintf(" and smtp://%s", mails.Addr())
	}
	r.say("showing what arrives at %s", at)
	if err := ops.RunAll(r.ctx, serve...); err != nil {
		return err
	}
	return c.end(r, s.Totals())
}

// bind opens the listener at the address that a flag names.
func (c *sinkCmd) bind(ctx context.Context, flag, addr string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, usage(fmt.Errorf("%s %q: must be HOST:PORT, such as 127.0.0.1:9000", flag, addr))
	}
	if ip, err := netip.ParseAddr(host); !c.Insecure && host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return nil, usage(fmt.Errorf("%s %s: others could reach it, and this terminal shows what arrives; "+
			"give --insecure if that is meant", flag, addr))
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, ops.BindError(flag, addr, err)
	}
	return listener, nil
}

// show prints each request as it is answered.
func (c *sinkCmd) show(r *run) func(sink.Request) {
	if c.Quiet {
		return nil
	}
	if c.json() {
		return func(q sink.Request) { _ = printLine(r.Out, q) } // who does not read has no use for it
	}
	return func(q sink.Request) {
		of := plain(q.Queue + " " + q.ID)
		if q.Attempt != "" && q.Attempt != "1" {
			of += ", attempt " + plain(q.Attempt)
		}
		body := plain(q.Body)
		if q.Cut() {
			body += fmt.Sprintf("... (%d bytes)", q.Bytes)
		}
		_, _ = fmt.Fprintf(r.Out, "%s  %s %s  %s  %s  %s\n",
			q.At.Format("15:04:05.000"), plain(q.Method), plain(q.Path), q.Answer, strings.TrimSpace(of), body)
	}
}

// end tells what arrived in all.
func (c *sinkCmd) end(r *run, t sink.Totals) error {
	if c.json() {
		if c.Quiet {
			return printLine(r.Out, t)
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
	_, err := fmt.Fprintf(r.Out, "%d requests in %s: %s; %d in any second at most\n",
		t.Requests, short(t.For), strings.Join(answers, ", "), t.MostInASecond)
	return err
}
