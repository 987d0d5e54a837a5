package app

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/queue/invalid"
)

func TestEgressFlags(t *testing.T) {
	inside := json.RawMessage(`{"http":{"url":"http://10.0.0.1/"}}`)
	for _, c := range []struct {
		args    []string
		env     string
		allowed bool
		fault   string
	}{
		{nil, "", false, ""},
		{[]string{"--egress-allow", "10.0.0.0/8"}, "", true, ""},
		{[]string{"--egress-allow", "hooks.internal,10.0.0.1"}, "", true, ""},
		{[]string{"--egress-allow", "hooks.internal", "--egress-allow", "10.0.0.1"}, "", true, ""},
		{nil, "192.168.0.0/16,10.0.0.0/8", true, ""},
		{nil, ",", false, ""},
		{[]string{"--egress-allow", "192.168.0.0/16"}, "10.0.0.0/8", false, ""}, // a flag goes before its variable
		{[]string{"--egress-allow", "http://10.0.0.1"}, "", false, "--egress-allow: "},
	} {
		t.Setenv("PENSTOCK_EGRESS_ALLOW", c.env)
		var f drainerFlags
		if err := parse(
			&f, "drainer", drainerAbout, append([]string{"--redis", "redis://a"}, c.args...), t.Output(), t.Output(),
			drainerVars(),
		); err != nil {
			t.Fatal(err)
		}
		guard, err := f.Guard()
		if c.fault != "" {
			if err == nil || !strings.HasPrefix(err.Error(), c.fault) {
				t.Errorf("%q: %v", c.args, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q with %q: %v", c.args, c.env, err)
			continue
		}
		err = ValidTarget(guard, secrets.Source{})("email", inside)
		var field *invalid.Error
		if (err == nil) != c.allowed || err != nil && (!errors.As(err, &field) || field.Field != "deliver.http.url" ||
			!strings.Contains(err.Error(), "allow it with --egress-allow 10.0.0.0/8")) {
			t.Errorf("%q with %q: %v", c.args, c.env, err)
		}
	}
}
