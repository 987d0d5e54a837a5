package sinkcmd

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/sink/smssim"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/leaky"
)

// SMSCmd is penstock sms-simulator.
type SMSCmd struct {
	Listen  string        `help:"Address to listen on, HOST:PORT." default:"127.0.0.1:8095" placeholder:"ADDR"`
	Rate    leaky.Rate    `help:"Accepted rate of segments; more are throttled." default:"unlimited"`
	Burst   int           `help:"Segments accepted at once." default:"1" placeholder:"N"`
	Latency time.Duration `help:"Time before each answer." default:"0s"`
	Account string        `help:"Account of the texts." default:"ACsimulator"`
	Token   string        `env:"PENSTOCK_SMS_TOKEN" help:"auth_token of the account. Default: any." placeholder:"TOKEN"`
}

// Help implements kong.HelpProvider.
func (SMSCmd) Help() string {
	return `Answers like Twilio's message API and prints each text, but sends nothing. Like Twilio's test numbers,
+15005550001 and others are refused; +15005550020 loses the answer. See docs/targets/sms.md for all
numbers.`
}

// Run runs the command.
func (c *SMSCmd) Run(r *command.Run) error {
	listener, err := new(net.ListenConfig).Listen(r.Ctx, "tcp", c.Listen)
	if err != nil {
		return ops.BindError("--listen", c.Listen, err)
	}
	o := smssim.Options{Account: c.Account, Token: c.Token, Burst: c.Burst, Latency: c.Latency, Log: r.Out}
	if !c.Rate.Unlimited() {
		o.Interval = c.Rate.Interval()
	}
	server := &http.Server{Handler: smssim.New(o), ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(r.Ctx, func() { _ = server.Close() })()
	r.Say(
		`use the target {"sms": {"provider": "twilio", "url": "http://%s", "account": %q, "auth_token": "...", `+
			`"from": "+15005550006"}}`,
		listener.Addr(), c.Account,
	)
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
