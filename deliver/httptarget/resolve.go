package httptarget

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/queue/invalid"
)

// texts returns the parts of a setting that may refer to secrets, by field, except its headers and its proxy.
func (t *Target) texts() map[string]*string {
	all := map[string]*string{"url": &t.URL}
	if s := t.Signing; s != nil {
		all["signing.secret"], all["signing.previous_secret"] = &s.Secret, &s.Previous
	}
	if c := t.TLS; c != nil {
		all["tls.ca"], all["tls.cert"], all["tls.key"] = &c.CA, &c.Cert, &c.Key
	}
	return all
}

// receivers returns the hosts that get everything in a request: the receiver, the name in its certificate if that is
// another, and the proxy.
func (t *Target) receivers() []setting.Host {
	to := []setting.Host{setting.HostOf("url", t.URL)}
	if t.TLS != nil {
		// With custom authorities TLS proves nothing to us, because the client that sets the target also chooses them. An
		// exception are authorities in a secret, whose owner says for which hosts they are.
		to[0].TLS = to[0].TLS && (t.TLS.CA == "" || secrets.IsReference(t.TLS.CA))
		if t.TLS.ServerName != "" {
			to = append(to, setting.Host{Field: "tls.server_name", Name: t.TLS.ServerName, Port: to[0].Port, TLS: to[0].TLS})
		}
	}
	if p := t.proxyHost(); p.Name != "" {
		p.TLS = p.TLS || to[0].TLS // the proxy cannot read what it passes on
		to = append(to, p)
	}
	return to
}

// proxyHost returns the host of the target's own proxy. A proxy of the environment, which the operator chose, does not
// count.
func (t *Target) proxyHost() setting.Host {
	if t.proxy == nil || t.proxy.environment {
		return setting.Host{}
	}
	return setting.HostOf("proxy", t.proxy.where())
}

// Uses implements setting.Hosted. A signing key is not sent, but its signatures are, so it needs the same permission.
func (t *Target) Uses() []setting.Use {
	to := t.receivers()
	var uses []setting.Use
	for field, text := range t.texts() {
		uses = append(uses, setting.Use{Field: field, Text: *text, To: to})
	}
	for name, value := range t.Headers {
		uses = append(uses, setting.Use{Field: "headers." + name, Text: value, To: to})
	}
	if t.proxy != nil {
		uses = append(uses, setting.Use{Field: "proxy", Text: t.proxy.password, To: []setting.Host{t.proxyHost()}})
	}
	slices.SortFunc(uses, func(a, b setting.Use) int { return strings.Compare(a.Field, b.Field) })
	return uses
}

// resolve returns the target with its secrets in place. Secrets are read each time, so that a change takes effect with
// the next attempt. Its error is a *secrets.Error, and quotes no secret.
func (t *Target) resolve(source secrets.Source, queueName string) (*Target, error) {
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
	if t.proxy != nil {
		r.proxy = new(*t.proxy)
	}
	texts := r.texts()
	if r.proxy != nil {
		texts["proxy"] = &r.proxy.password
	}
	for _, use := range t.uses {
		value, used, err := source.Expand(queueName, use)
		if err != nil {
			return nil, err
		}
		if header, ok := strings.CutPrefix(use.Field, "headers."); ok {
			r.Headers[header] = value
		} else {
			*texts[use.Field] = value
		}
		if !strings.HasPrefix(use.Field, "tls.") { // keys of client certificates are never sent
			r.hidden = append(r.hidden, used...)
		}
	}
	var field *invalid.Error
	if err := r.check("deliver.http"); errors.As(err, &field) {
		return nil, &secrets.Error{Err: errors.New(
			field.Field + " cannot be used with its secrets filled in: it " + field.Reason,
		)}
	}
	return &r, nil
}

// checkHost refuses invalid hosts, and names that some resolvers take for an address.
func checkHost(at, host string) error {
	if !egress.IsHost(host) {
		return setting.Error(
			at, "",
			"has a host that is neither a name nor an address: "+clip.Quote(host, 80)+
				"; write a name such as api.example.com, or an address such as 192.0.2.1",
		)
	}
	return nil
}
