package app

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/penstock/penstock/deliver/natspub"
)

// PublishFlags say where nats targets publish. It need not be the NATS of the overflow.
type PublishFlags struct {
	PublishNATS   string `name:"publish-nats" placeholder:"URL,..." help:"NATS that nats targets publish to, such as nats://a:4222,nats://b:4222; tls:// for TLS."`
	PublishCreds  string `type:"path" placeholder:"FILE" help:"Credentials file to log in to that NATS with. A user and password, or a token, may stand in the URL instead."`
	PublishPrefix string `placeholder:"SUBJECT" help:"What every subject begins with that they publish to, such as jobs: nothing outside of it can be reached. Needed by --publish-nats."`
}

// Validate is called by the parser.
func (f *PublishFlags) Validate() error {
	switch {
	case f.PublishNATS == "" && f.PublishCreds+f.PublishPrefix != "":
		return errors.New("--publish-nats is missing: the other --publish flags are of no use without it")
	case f.PublishNATS != "" && !natspub.ValidPrefix(f.PublishPrefix):
		return fmt.Errorf("--publish-prefix %q: must be tokens of letters, digits, _ and - with dots between, such as jobs", f.PublishPrefix)
	}
	return nil
}

// Connect connects to that NATS, which may be away. End it with done.
func (f *PublishFlags) Connect(log *slog.Logger) (o natspub.Options, done func(), err error) {
	if f.PublishNATS == "" {
		return natspub.Options{}, func() {}, nil
	}
	conn, err := (&natsFlags{NATS: f.PublishNATS, NATSCreds: f.PublishCreds}).connect("penstock publisher", log)
	if err != nil {
		return natspub.Options{}, func() {}, fmt.Errorf("--publish-nats: %w", withoutURL(err, f.PublishNATS))
	}
	return natspub.Options{Conn: conn, Prefix: f.PublishPrefix}, conn.Close, nil
}
