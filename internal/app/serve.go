package app

import (
	"errors"
	"net/http"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/ops"
)

// HostFlags say by which names requests may come.
type HostFlags struct {
	Host []string `placeholder:"NAME" help:"A name by which requests come, such as penstock.example.com; may be repeated. Addresses, localhost and the name in --listen need none; requests by other names are refused, for a web page may have its own name lead here."`
}

// Valid checks them.
func (f *HostFlags) Valid() error { return validHosts(f.Host) }

func validHosts(names []string) error {
	var errs []error
	for _, name := range names {
		errs = append(errs, api.ValidateHost(name))
	}
	return errors.Join(errs...)
}

// newServer opens a listener. All of a process are opened here, the API's and those of health and metrics: none is
// without the guard against what web pages send, and all tell refusals in one way.
func newServer(l ops.Listen, o ops.ServerOptions) (*ops.Server, error) {
	if err := validHosts(l.Hosts); err != nil {
		return nil, err
	}
	o.Guard = func(h http.Handler) http.Handler { return api.Guard(h, l.Names()) }
	o.Own = api.HTTPRefusal
	return ops.NewServer(l, o)
}
