package post

import (
	"errors"
	"maps"
	"net/netip"

	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/queue"
)

// text is a part of a setting, besides its headers, that may refer to secrets.
type text struct {
	field string
	value *string
}

func (t *Target) texts(at string) []text {
	list := []text{{at + ".url", &t.URL}}
	if s := t.Signing; s != nil {
		list = append(list, text{at + ".signing.secret", &s.Secret}, text{at + ".signing.previous_secret", &s.Previous})
	}
	if c := t.TLS; c != nil {
		list = append(list, text{at + ".tls.ca", &c.CA}, text{at + ".tls.cert", &c.Cert}, text{at + ".tls.key", &c.Key})
	}
	return list
}

// resolve returns the target with its secrets in place, as they are at this moment: one that is changed is used by
// the next attempt. Its error is a *secrets.Error, and quotes none.
func (t *Target) resolve(source secrets.Source) (*Target, error) {
	if !t.refers {
		return t, nil
	}
	r := *t
	r.refers = false
	r.Headers = maps.Clone(t.Headers)
	if t.Signing != nil {
		r.Signing = new(*t.Signing)
	}
	if t.TLS != nil {
		r.TLS = new(*t.TLS)
	}
	for _, text := range r.texts("") {
		expanded, err := source.Expand(*text.value)
		if err != nil {
			return nil, err
		}
		*text.value = expanded
	}
	for name, value := range r.Headers {
		expanded, err := source.Expand(value)
		if err != nil {
			return nil, err
		}
		r.Headers[name] = expanded
	}
	if t.proxy != nil {
		r.proxy = new(*t.proxy)
		password, err := source.Expand(t.proxy.password)
		if err != nil {
			return nil, err
		}
		r.proxy.password = password
	}
	for _, reference := range secrets.References(t.URL) {
		value, err := source.Expand(reference)
		if err != nil {
			return nil, err
		}
		r.hidden = append(r.hidden, value)
	}
	var field *queue.FieldError
	if err := r.check("deliver.http"); errors.As(err, &field) {
		return nil, &secrets.Error{Err: errors.New(field.Field + " cannot be used with its secrets in place: it " + field.Reason)}
	}
	return &r, nil
}

// checkHost refuses what some resolvers take for an address and people do not.
func checkHost(at, host string) error {
	if _, err := netip.ParseAddr(host); err != nil && egress.EndsInNumber(host) {
		return setting.Error(at, "", "has a host that is neither a name nor an address: "+queue.Shorten(host, 80)+"; write an address such as 192.0.2.1")
	}
	return nil
}
