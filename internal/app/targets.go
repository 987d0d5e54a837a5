package app

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/ops"
)

// EgressFlags say where targets may be, besides at public addresses.
type EgressFlags struct {
	EgressAllow []string `placeholder:"RANGE,..."`
}

// LongHelp is the help that is too long for the tags.
func (EgressFlags) LongHelp() map[string]string {
	return map[string]string{
		"egress-allow": "Where targets may be besides at public addresses: an address (127.0.0.1 for a receiver on this " +
			"machine), a range of them (10.0.0.0/8), a host's name, or all names under one (*.internal). Give ingress " +
			"and drainer the same.",
	}
}

// Guard is what they allow.
func (f *EgressFlags) Guard() (*egress.Guard, error) {
	// of a variable that is empty
	allow := slices.DeleteFunc(slices.Clone(f.EgressAllow), func(item string) bool { return item == "" })
	guard, err := egress.New(allow...)
	if err != nil {
		return nil, ops.Misuse(fmt.Errorf("%s: %w", egress.Flag, err))
	}
	return guard, nil
}

// SecretsFlags say where the secrets are that targets refer to, and where they may go.
type SecretsFlags struct {
	SecretsDir  string   `type:"existingdir" placeholder:"DIR"`
	SecretAllow []string `sep:"none" placeholder:"NAME=HOST[,HOST];QUEUE"`
}

// LongHelp is the help that is too long for the tags.
func (SecretsFlags) LongHelp() map[string]string {
	return map[string]string{
		"secrets-dir": "Where $${secret:NAME} of a target is the content of the file NAME. Otherwise it is the variable " +
			"PENSTOCK_SECRET_NAME. The file NAME.allow in it says where the secret may go: a host a line, or " +
			"queue: and a queue. Give ingress and drainer the same; an ingress needs only the .allow files.",
		"secret-allow": "Where a secret may go, as NAME.allow says it: to these hosts, with the jobs of these queues. Of " +
			"which nothing says so, that goes nowhere. Give it again for more, or several with spaces between.",
	}
}

// Source is where the secrets are and may go. Its error is of what says where.
func (f *SecretsFlags) Source() (secrets.Source, error) {
	s := secrets.Source{Dir: f.SecretsDir}
	for _, list := range f.SecretAllow {
		for text := range strings.FieldsSeq(list) {
			allow, err := secrets.ParseAllow(text)
			if err != nil {
				return s, ops.Misuse(fmt.Errorf("%s: %w", secrets.Flag, err))
			}
			s.Allow = append(s.Allow, allow)
		}
	}
	if err := s.Validate(); err != nil {
		return s, ops.Misuse(fmt.Errorf("--secrets-dir %s: %w", f.SecretsDir, err))
	}
	return s, nil
}

// ValidTarget returns a check of the deliver part of a queue's spec: it can be used, the guard lets it out, as far as
// that can be told without asking for names, and the secrets that it refers to may go there.
func ValidTarget(guard *egress.Guard, source secrets.Source) func(name string, raw json.RawMessage) error {
	return func(name string, raw json.RawMessage) error {
		target, err := deliver.Parse(raw)
		if err != nil {
			return err
		}
		if err := target.Reach(guard); err != nil {
			return err
		}
		return target.Permit(source, name)
	}
}

// Permitted returns, for deliver.Options, what the apps of a store may deliver to.
func Permitted(owners *auth.Owners) func(queueName string) (deliver.Permission, error) {
	return func(queueName string) (deliver.Permission, error) {
		if of, err := owners.Permitted(queueName); of != nil || err != nil {
			return of, err
		}
		return nil, nil
	}
}
