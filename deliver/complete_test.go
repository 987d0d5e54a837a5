package deliver

import (
	"testing"

	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/queue"
)

// A spec that does not say gets what its target says of jobs that may have been sent, unless that is to try again.
func TestComplete(t *testing.T) {
	const http = `{"http": {"url": "https://example.com/"}}`
	for _, c := range []struct{ deliver, on, want string }{
		{"", "", ""}, {http, "", ""}, {http, "hold", "hold"}, {`{"smtp": {}}`, "", ""},
	} {
		s := queue.Spec{Deliver: []byte(c.deliver), OnUnknown: c.on}
		if Complete(&s); s.OnUnknown != c.want {
			t.Errorf("%s, %q: %q, want %q", c.deliver, c.on, s.OnUnknown, c.want)
		}
	}
	builtIn["held"] = kind{setting: func() setting.Setting { return &careful{} }}
	defer delete(builtIn, "held")
	s := queue.Spec{Deliver: []byte(`{"held": {}}`)}
	if Complete(&s); s.OnUnknown != queue.UnknownHold {
		t.Errorf("got %q", s.OnUnknown)
	}
}

type careful struct{}

func (*careful) Check(string) error      { return nil }
func (*careful) Accept(*queue.Job) error { return nil }
func (*careful) OnUnknown() string       { return queue.UnknownHold }
