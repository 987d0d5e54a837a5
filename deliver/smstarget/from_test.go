package smstarget

import (
	"errors"
	"testing"

	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

// Who puts a job in does not choose whose name the text has: that is the target's sender, but for those that it allows.
func TestSenderIsTheTargets(t *testing.T) {
	for _, c := range []struct {
		setting, from, want string // empty: refused
	}{
		{`"from": "+15005550006"`, "", "+15005550006"},
		{`"from": "+15005550006"`, "+15005550006", "+15005550006"},
		{`"from": "+15005550006"`, "MyBank", ""},
		{`"from": "+15005550006"`, "+15005550007", ""},
		{`"messaging_service": "MG1"`, "+15005550007", ""},
		{`"messaging_service": "MG1", "allow_from": ["+1500555*"]`, "+15005550007", "+15005550007"},
		{`"from": "+15005550006", "allow_from": ["Shop", "+1500555*"]`, "SHOP", "SHOP"},
		{`"from": "+15005550006", "allow_from": ["Shop", "+1500555*"]`, "Shopping", ""},
		{`"from": "+15005550006", "allow_from": ["*"]`, "MyBank", "MyBank"},
		{`"allow_from": ["*"]`, "", ""},
	} {
		s := Default()
		if err := setting.Decode(
			[]byte(`{"provider": "twilio", "account": "AC1", "auth_token": "x", `+c.setting+`}`), "deliver.sms", s,
		); err != nil {
			t.Error(err)
			continue
		}
		if err := s.Check("deliver.sms"); err != nil {
			t.Error(err)
			continue
		}
		m, err := s.Message(&queue.Job{Payload: []byte(`{"to": "+4915112345678", "text": "x", "from": "` + c.from + `"}`)})
		var field *invalid.Error
		if c.want == "" && (!errors.As(err, &field) || field.Field != "payload.from") || c.want != "" && (err != nil ||
			m.From != c.want) {
			t.Errorf("%s, from %q: %q, %v, want %q", c.setting, c.from, m.From, err, c.want)
		}
	}
}
