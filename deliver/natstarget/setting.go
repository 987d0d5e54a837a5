// Package natstarget delivers jobs by publishing them to NATS, core or JetStream.
//
// A job is published below the operator's prefix, whatever its queue's setting and its lane. No job can set a header
// that NATS itself interprets. A message acknowledged by JetStream is delivered. A message that may have arrived is
// published again under the same Nats-Msg-Id, which JetStream recognizes within its duplicate window.
//
// The package buffers no messages: while NATS is away, the target is down.
package natstarget

import (
	"cmp"
	"strings"
	"time"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// The modes.
const (
	Core      = "core"      // only for present subscribers
	JetStream = "jetstream" // acknowledged by a stream
)

// Defaults and limits of a Target.
const (
	DefaultTimeout  = 5 * time.Second
	MinTimeout      = 10 * time.Millisecond
	MaxTimeout      = time.Minute
	MaxSubjectBytes = 200
	maxStreamBytes  = 255
)

// Placeholders in a subject. Each becomes one token.
const (
	laneToken  = "{lane}"
	queueToken = "{queue}"
	appToken   = "{app}" // also in the prefix
)

// Target is the setting of a nats target: where a queue's jobs are published.
type Target struct {
	// Subject follows the operator's prefix. Its tokens {lane}, {queue} and {app} stand for the job's lane and queue, and
	// for the app of the queue.
	Subject string `json:"subject"`
	Mode    string `json:"mode,omitempty"`
	// Stream is the stream that must have the subject; empty means any. JetStream only.
	Stream string `json:"stream,omitempty"`
	// Timeout is the maximum time from the departure to the answer of NATS.
	Timeout unit.Duration `json:"timeout,omitempty"`
}

var _ setting.Setting = (*Target)(nil)

// Default returns a setting with its defaults.
func Default() *Target {
	return &Target{Mode: JetStream, Timeout: unit.Duration(DefaultTimeout)}
}

// Check implements setting.Setting.
func (t *Target) Check(at string) error {
	at += "."
	if err := cmp.Or(secrets.None(at+"subject", t.Subject), secrets.None(at+"stream", t.Stream)); err != nil {
		return err
	}
	switch {
	case t.Subject == "":
		return setting.Error(
			at+"subject", "",
			`is missing; it must be a subject such as "mail.sent", which follows the prefix of the drainers`,
		)
	case len(t.Subject) > MaxSubjectBytes:
		return setting.Error(at+"subject", t.Subject, "is longer than 200 bytes")
	}
	for token := range strings.SplitSeq(t.Subject, ".") {
		if token != laneToken && token != queueToken && token != appToken && !plain(token) {
			return setting.Error(
				at+"subject", t.Subject,
				"must be tokens of letters, digits, _ and - separated by dots, such as mail.sent; a token may be {lane}, "+
					"{queue} or {app}; no wildcards, no empty tokens",
			)
		}
	}
	if t.Mode != Core && t.Mode != JetStream {
		return setting.Error(at+"mode", t.Mode, "must be core or jetstream")
	}
	if t.Stream != "" && t.Mode == Core {
		return setting.Error(at+"stream", t.Stream, "needs the mode jetstream; leave it out")
	}
	if t.Stream != "" && (len(t.Stream) > maxStreamBytes || !plain(t.Stream)) {
		return setting.Error(at+"stream", t.Stream, "is not a stream name")
	}
	if t.Timeout.D() < MinTimeout || t.Timeout.D() > MaxTimeout {
		return setting.Error(at+"timeout", t.Timeout.String(), "must be from "+MinTimeout.String()+" to "+MaxTimeout.String())
	}
	return nil
}

// Accept implements setting.Setting. If the subject has {lane}, the job's lane must be a valid token. The job's headers
// must not be NATS's own.
func (t *Target) Accept(job *queue.Job) error {
	if _, err := t.subject(job); err != nil {
		return err
	}
	for name := range job.Headers {
		if reserved(name) {
			return setting.Error("headers."+name, "", "is interpreted by NATS, and cannot be set by a job")
		}
	}
	return nil
}

// OnUnknown implements setting.Setting. JetStream recognizes the message ID, and core makes no promise to subscribers.
func (t *Target) OnUnknown() string { return queue.UnknownRetry }

// subject returns the subject of a job without the prefix. {app} is not replaced yet.
func (t *Target) subject(job *queue.Job) (string, error) {
	if !strings.Contains(t.Subject, "{") {
		return t.Subject, nil
	}
	tokens := strings.Split(t.Subject, ".")
	for i, token := range tokens {
		switch token {
		case laneToken:
			if !plain(job.Lane) {
				return "", setting.Error(
					"lane", job.Lane, "cannot be part of the subject "+t.Subject+": it must be letters, digits, _ and -, at least one",
				)
			}
			tokens[i] = job.Lane
		case queueToken:
			tokens[i] = strings.ReplaceAll(job.Queue, ".", "-") // a child's name has a dot
		}
	}
	return strings.Join(tokens, "."), nil
}

// plain reports whether s is a token of letters, digits, _ and - only. It is then neither a wildcard (* or >) nor one
// of NATS's own tokens, which begin with $.
func plain(s string) bool {
	return s != "" && len(s) <= MaxSubjectBytes && strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-')
	}) < 0
}

// ValidPrefix reports whether s can be the operator's prefix: plain tokens or {app}, separated by dots. Prefixes below
// _INBOX, which NATS uses itself, are not valid.
func ValidPrefix(s string) bool {
	if s == "" || len(s) > MaxSubjectBytes {
		return false
	}
	for token := range strings.SplitSeq(s, ".") {
		if token != appToken && !plain(token) {
			return false
		}
	}
	return !strings.EqualFold(s, "_INBOX") && !strings.HasPrefix(strings.ToUpper(s), "_INBOX.")
}

// reserved reports whether NATS interprets a header of that name. NATS clients take a message with a Status and without
// a payload for a status of the server, so a consumer that pulls from a stream would never see it.
func reserved(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, "nats-") || name == "status"
}
