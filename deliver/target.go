package deliver

import (
	stdjson "encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/queue"
)

// Target is a parsed deliver setting: where a queue's jobs go.
type Target struct {
	Kind string // its name in the setting, such as http
	setting.Setting
}

// Parse parses and checks a deliver setting and fills in defaults. Unknown and repeated names are errors, and so is
// secrets.Hidden in place of a secret. All errors are *invalid.Error with the field's path, such as deliver.http.url;
// none shows a secret.
func Parse(raw stdjson.RawMessage) (Target, error) { return (*Kinds)(nil).Parse(raw) }

// Parse is like the function Parse, for these kinds.
func (k *Kinds) Parse(raw stdjson.RawMessage) (Target, error) {
	if len(strings.TrimSpace(string(raw))) == 0 {
		return Target{}, k.noTarget("")
	}
	if len(raw) > queue.MaxDeliverBytes {
		return Target{}, setting.Error(
			"deliver", "", "has "+strconv.Itoa(len(raw))+" bytes, the limit is "+strconv.Itoa(queue.MaxDeliverBytes),
		)
	}
	var named map[string]jsontext.Value
	if err := setting.Decode(raw, "deliver", &named); err != nil {
		return Target{}, err
	}
	if _, err := secrets.Unmask(raw, nil); err != nil { // there is no stored setting whose secrets could be kept
		return Target{}, err
	}
	if len(named) > 1 {
		return Target{}, setting.Error(
			"deliver", "",
			"names "+strconv.Itoa(len(named))+" targets, "+clip.Quote(
				strings.Join(slices.Sorted(maps.Keys(named)), ", "), 80,
			)+"; a queue has only one: create a queue for each",
		)
	}
	if len(named) == 0 {
		return Target{}, k.noTarget("")
	}
	for name, value := range named {
		kind, ok := k.of(name)
		if value.Kind() == 'n' {
			return Target{}, k.noTarget("")
		}
		if !ok {
			return Target{}, k.noTarget(name)
		}
		s := kind.setting()
		at := "deliver." + name
		if err := setting.Decode(value, at, s); err != nil {
			return Target{}, err
		}
		if err := s.Check(at); err != nil {
			return Target{}, err
		}
		return Target{Kind: name, Setting: s}, nil
	}
	panic("unreachable: there is one")
}

// Complete sets the on_unknown of a spec without one to its target's default, unless that is retry, the engine's own
// default. It leaves specs with an invalid target unchanged.
func Complete(s *queue.Spec) { (*Kinds)(nil).Complete(s) }

// Complete is like the function Complete, for these kinds.
func (k *Kinds) Complete(s *queue.Spec) {
	if s.OnUnknown != "" || len(s.Deliver) == 0 {
		return
	}
	if t, err := k.Parse(s.Deliver); err == nil && t.OnUnknown() != queue.UnknownRetry {
		s.OnUnknown = t.OnUnknown()
	}
}

// Reach checks that a guard permits connections to the target's hosts, as far as that is known without resolving names.
// Its error is an *invalid.Error.
func (t Target) Reach(guard *egress.Guard) error {
	hosted, ok := t.Setting.(setting.Hosted)
	if !ok {
		return nil
	}
	for _, host := range hosted.Hosts() {
		if err := guard.Check(host.Name, host.Port); err != nil {
			return setting.Error("deliver."+t.Kind+"."+host.Field, "", err.Error())
		}
	}
	return nil
}

// Permit checks that the target's secrets may be sent to its hosts, with the jobs of a queue. Its error is an
// *invalid.Error.
func (t Target) Permit(source secrets.Source, queueName string) error {
	hosted, ok := t.Setting.(setting.Hosted)
	if !ok {
		return nil
	}
	uses := hosted.Uses()
	for i := range uses {
		uses[i].Field = "deliver." + t.Kind + "." + uses[i].Field
	}
	return source.Permit(queueName, uses...)
}

func (k *Kinds) noTarget(name string) error {
	if name != "" {
		return setting.Error("deliver."+name, "", "is not a kind of target; use one of "+strings.Join(k.names(), ", "))
	}
	return setting.Error(
		"deliver", "",
		`names no target; name one, such as {"http": {"url": "https://api.example.com/v1/send"}}; the kinds are `+
			strings.Join(k.names(), ", "),
	)
}
