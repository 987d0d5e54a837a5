package app

import (
	"errors"

	"github.com/penstock/penstock/internal/api/httpio"
)

// HostFlags set the host names of the server.
type HostFlags struct {
	Host []string `placeholder:"NAME"`
}

// LongHelp implements longHelper.
func (HostFlags) LongHelp() map[string]string {
	return map[string]string{
		"host": "Host name under which clients reach this server, such as penstock.example.com; may be repeated. " +
			"Addresses, localhost and the name in --listen are always accepted. Requests with other names are refused, " +
			"which prevents DNS rebinding by web pages.",
	}
}

// Valid checks the flags.
func (f *HostFlags) Valid() error { return validHosts(f.Host) }

func validHosts(names []string) error {
	var errs []error
	for _, name := range names {
		errs = append(errs, httpio.ValidateHost(name))
	}
	return errors.Join(errs...)
}
