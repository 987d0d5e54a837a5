// Package natstarget delivers jobs by publishing them to NATS, core or JetStream.
//
// It promises that a job is published below the prefix that the operator has fixed, whatever its queue's
// setting and its lane say; that no job sets a header that NATS itself goes by; that a message that JetStream has
// acknowledged is delivered, and one that it may have is published again under the same Nats-Msg-Id, by which
// JetStream knows it for the time of its duplicate window.
//
// It refuses to keep messages back while NATS is away: what cannot be published now is a target that is
// down.
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
	Core      = "core"      // published and gone: those hear it who listen
	JetStream = "jetstream" // a stream has acknowledged it
)

// Defaults and limits of a Target.
const (
	DefaultTimeout  = 5 * time.Second
	MinTimeout      = 10 * time.Millisecond
	MaxTimeout      = time.Minute
	MaxSubjectBytes = 200
	maxStreamBytes  = 255
)

// Placeholders in a subject: each becomes one token of it.
const (
	laneToken  = "{lane}"
	queueToken = "{queue}"
	appToken   = "{app}" // of the prefix, too
)

// Target is where the jobs of a queue are published.
type Target struct {
	// Subject, behind the operator's prefix. {lane} and {queue} in it, as tokens of their own, stand for those of the
	// job, and {app} for the app that has the queue's name.
	Subject string `json:"subject"`
	Mode    string `json:"mode,omitempty"`
	// Stream is which stream must have the subject; empty is any. JetStream only.
	Stream string `json:"stream,omitempty"`
	// Timeout is for NATS to answer, from the departure.
	Timeout unit.Duration `json:"timeout,omitempty"`
}

var _ setting.Setting = (*Target)(nil)

// Default is a setting with its defaults.
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
			`is missing; it must be a subject such as "mail.sent", behind the prefix that the drainers are given`,
		)
	case len(t.Subject) > MaxSubjectBytes:
		return setting.Error(at+"subject", t.Subject, "is too long; 200 bytes are the most")
	}
	for token := range strings.SplitSeq(t.Subject, ".") {
		if token != laneToken && token != queueToken && token != appToken && !plain(token) {
			return setting.Error(
				at+"subject", t.Subject,
				"must be tokens of letters, digits, _ and - with dots between, such as mail.sent, or {lane}, {queue} or {app} in "+
					"place of one; no wildcards, no empty tokens",
			)
		}
	}
	if t.Mode != Core && t.Mode != JetStream {
		return setting.Error(at+"mode", t.Mode, "must be core or jetstream")
	}
	if t.Stream != "" && t.Mode == Core {
		return setting.Error(at+"stream", t.Stream, "is of use only in mode jetstream; leave it out")
	}
	if t.Stream != "" && (len(t.Stream) > maxStreamBytes || !plain(t.Stream)) {
		return setting.Error(at+"stream", t.Stream, "is no name of a stream")
	}
	if t.Timeout.D() < MinTimeout || t.Timeout.D() > MaxTimeout {
		return setting.Error(at+"timeout", t.Timeout.String(), "must be from "+MinTimeout.String()+" to "+MaxTimeout.String())
	}
	return nil
}

// Accept implements setting.Setting: a job's lane must do as a token if the subject has it, and its headers
// must not be NATS' own.
func (t *Target) Accept(job *queue.Job) error {
	if _, err := t.subject(job); err != nil {
		return err
	}
	for name := range job.Headers {
		if reserved(name) {
			return setting.Error("headers."+name, "", "is one that NATS goes by, and cannot be set by a job")
		}
	}
	return nil
}

// OnUnknown implements setting.Setting: JetStream knows the message id; a core publish is for those who
// listen, and says nothing of who did.
func (t *Target) OnUnknown() string { return queue.UnknownRetry }

// subject is that of a job, behind the prefix, but for its {app}.
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

// plain reports whether s is a token that can mean nothing but itself. One with a $ in front may be NATS'
// own, one of * or > others.
func plain(s string) bool {
	return s != "" && len(s) <= MaxSubjectBytes && strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-')
	}) < 0
}

// ValidPrefix reports whether s can be the operator's prefix: tokens, {app} among them, with dots between, none of them
// NATS' own.
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

// reserved reports whether NATS goes by a header of that name. A message without a payload that has a Status is taken
// by its clients for a word of the server's: who pulls it from a stream would never see it.
func reserved(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, "nats-") || name == "status"
}
