package app

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/deliver/secrets"
)

// EgressFlags say where targets may be, besides at public addresses.
type EgressFlags struct {
	EgressAllow []string `placeholder:"RANGE,..." help:"${egresshelp}"`
}

// EgressHelp is the help of --egress-allow.
const EgressHelp = "Where targets may be besides at public addresses: an address (127.0.0.1 for a receiver on this machine), a range of them (10.0.0.0/8), a host's name, or all names under one (*.internal). Give ingress and drainer the same."

// Guard is what they allow.
func (f *EgressFlags) Guard() (*egress.Guard, error) {
	allow := slices.DeleteFunc(slices.Clone(f.EgressAllow), func(item string) bool { return item == "" }) // of a variable that is empty
	guard, err := egress.New(allow...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", egress.Flag, err)
	}
	return guard, nil
}

// SecretsFlags say where the secrets are that targets refer to.
type SecretsFlags struct {
	SecretsDir string `type:"existingdir" placeholder:"DIR" help:"Where $${secret:NAME} of a target is the content of the file NAME. Otherwise it is the variable PENSTOCK_SECRET_NAME."`
}

// Source is where the secrets are.
func (f *SecretsFlags) Source() secrets.Source { return secrets.Source{Dir: f.SecretsDir} }

// ValidTarget returns a check of the deliver part of specs: it can be used, and the guard lets it out, as far as that
// can be told without asking for names.
func ValidTarget(guard *egress.Guard) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		target, err := deliver.Parse(raw)
		if err != nil {
			return err
		}
		return target.Reach(guard)
	}
}
