package app

import (
	"errors"

	"github.com/penstock/penstock/internal/api/httpio"
)

// HostFlags say by which names requests may come.
type HostFlags struct {
	Host []string `placeholder:"NAME"`
}

// LongHelp is the help that is too long for the tags.
func (HostFlags) LongHelp() map[string]string {
	return map[string]string{
		"host": "A name by which requests come, such as penstock.example.com; may be repeated. Addresses, " +
			"localhost and the name in --listen need none; requests by other names are refused, for a web page " +
			"may have its own name lead here.",
	}
}

// Valid checks them.
func (f *HostFlags) Valid() error { return validHosts(f.Host) }

func validHosts(names []string) error {
	var errs []error
	for _, name := range names {
		errs = append(errs, httpio.ValidateHost(name))
	}
	return errors.Join(errs...)
}
