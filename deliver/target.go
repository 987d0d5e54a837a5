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

// Target is a queue's deliver setting: where its jobs go.
type Target struct {
	Kind string // http, say: its name in the setting
	setting.Setting
}

// Parse reads and checks a deliver setting and fills in defaults. Unknown and repeated
// names are errors, and so is Hidden in place of a secret; all errors are *invalid.Error with
// the field's path, such as deliver.http.url, and none shows a secret.
func Parse(raw stdjson.RawMessage) (Target, error) { return (*Kinds)(nil).Parse(raw) }

// Parse is the func Parse for these kinds.
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
	if _, err := secrets.Unmask(raw, nil); err != nil { // nothing is stored here that it could stand for
		return Target{}, err
	}
	if len(named) > 1 {
		return Target{}, setting.Error(
			"deliver", "",
			"names "+strconv.Itoa(len(named))+" targets, "+clip.Quote(
				strings.Join(slices.Sorted(maps.Keys(named)), ", "), 80,
			)+"; a queue has one: make a queue for each",
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
	panic("unreachable: it has one")
}

// Complete gives a spec that has a target, and does not say what becomes of a job that may have been sent, what its
// target says of such, unless that is to try again: so the engine goes by it too. A target that cannot be used is left
// to who checks it.
func Complete(s *queue.Spec) { (*Kinds)(nil).Complete(s) }

// Complete is the func Complete for these kinds.
func (k *Kinds) Complete(s *queue.Spec) {
	if s.OnUnknown != "" || len(s.Deliver) == 0 {
		return
	}
	if t, err := k.Parse(s.Deliver); err == nil && t.OnUnknown() != queue.UnknownRetry {
		s.OnUnknown = t.OnUnknown()
	}
}

// Reach asks a guard for the hosts that are to be connected to, as far as that can be told without resolving their
// names. Its error is an *invalid.Error.
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

// Permit asks a source whether the secrets to which the target refers may go where it is, with the jobs of a queue. Its
// error is an *invalid.Error.
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
		return setting.Error("deliver."+name, "", "is no target; one of "+strings.Join(k.names(), ", "))
	}
	return setting.Error(
		"deliver", "",
		`names no target; name one, such as {"http": {"url": "https://api.example.com/v1/send"}}; there are `+
			strings.Join(k.names(), ", "),
	)
}
