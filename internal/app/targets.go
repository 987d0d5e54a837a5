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

// EgressFlags permit targets at addresses that are not public.
type EgressFlags struct {
	EgressAllow []string `placeholder:"RANGE,..."`
}

// LongHelp implements longHelper.
func (EgressFlags) LongHelp() map[string]string {
	return map[string]string{
		"egress-allow": "Addresses that targets may use in addition to public ones: an address (127.0.0.1 for a receiver " +
			"on this machine), a range (10.0.0.0/8), a host name, or all names in a domain (*.internal). Give ingress " +
			"and drainer the same.",
	}
}

// Guard returns the guard that the flags describe.
func (f *EgressFlags) Guard() (*egress.Guard, error) {
	// An empty environment variable yields an empty item.
	allow := slices.DeleteFunc(slices.Clone(f.EgressAllow), func(item string) bool { return item == "" })
	guard, err := egress.New(allow...)
	if err != nil {
		return nil, ops.Misuse(fmt.Errorf("%s: %w", egress.Flag, err))
	}
	return guard, nil
}

// SecretsFlags set where the secrets of targets are, and where they may be sent.
type SecretsFlags struct {
	SecretsDir  string   `type:"existingdir" placeholder:"DIR"`
	SecretAllow []string `sep:"none" placeholder:"NAME=HOST[,HOST];QUEUE"`
}

// LongHelp implements longHelper.
func (SecretsFlags) LongHelp() map[string]string {
	return map[string]string{
		"secrets-dir": "Directory of secrets: $${secret:NAME} in a target is the content of the file NAME. Without the " +
			"flag " +
			"it is the environment variable PENSTOCK_SECRET_NAME. The file NAME.allow lists where the secret may be sent, " +
			"one host per line, or queue: and a queue. Give ingress and drainer the same; an ingress without proxied " +
			"queues needs only the .allow files.",
		"secret-allow": "Hosts to which a secret may be sent, and queues whose jobs may use it, as in NAME.allow. A secret " +
			"without such a rule is never sent. May be repeated, or list several separated by spaces.",
	}
}

// Source returns the source of secrets that the flags describe.
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

// ValidTarget returns a check of the deliver part of a queue's spec. The target must be usable, the guard must permit
// it, as far as that is known without resolving names, and its secrets may be sent there.
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

// Permitted returns the permissions of a store's apps to deliver, for deliver.Options.
func Permitted(owners *auth.Owners) func(queueName string) (deliver.Permission, error) {
	return func(queueName string) (deliver.Permission, error) {
		if of, err := owners.Permitted(queueName); of != nil || err != nil {
			return of, err
		}
		return nil, nil
	}
}
