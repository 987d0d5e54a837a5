package cli

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/penstock/penstock/internal/cli/sink/smssim"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/leaky"
)

// simulatorCmd is a provider of texts to try things out with.
type simulatorCmd struct {
	Listen  string        `help:"Where to listen, HOST:PORT." default:"127.0.0.1:8095" placeholder:"ADDR"`
	Rate    leaky.Rate    `help:"Segments that it takes; more are throttled." default:"unlimited"`
	Burst   int           `help:"Segments that it takes at once." default:"1" placeholder:"N"`
	Latency time.Duration `help:"How long it takes to answer." default:"0s"`
	Account string        `help:"Whose texts they are." default:"ACsimulator"`
	Token   string        `env:"PENSTOCK_SMS_TOKEN" placeholder:"TOKEN"`
}

// LongHelp is the help that is too long for the tags.
func (simulatorCmd) LongHelp() map[string]string {
	return map[string]string{
		"token": "The account's auth_token; by default any will do.",
	}
}

// Help is shown below the flags.
func (simulatorCmd) Help() string {
	return `Answers as Twilio's message API does, prints each text, and sends none. Numbers such as
+15005550001 are refused as Twilio's own test numbers are; +15005550020 loses the answer.
docs/targets/sms.md has them all.`
}

func (c *simulatorCmd) Run(r *run) error {
	listener, err := new(net.ListenConfig).Listen(r.ctx, "tcp", c.Listen)
	if err != nil {
		return ops.BindError("--listen", c.Listen, err)
	}
	o := smssim.Options{Account: c.Account, Token: c.Token, Burst: c.Burst, Latency: c.Latency, Log: r.Out}
	if !c.Rate.Unlimited() {
		o.Interval = c.Rate.Interval()
	}
	server := &http.Server{Handler: smssim.New(o), ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(r.ctx, func() { _ = server.Close() })()
	r.say(
		`texts go to {"sms": {"provider": "twilio", "url": "http://%s", "account": %q, "auth_token": "...", `+
			`"from": "+15005550006"}}`,
		listener.Addr(), c.Account,
	)
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
