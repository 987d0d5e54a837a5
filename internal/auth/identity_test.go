package auth

import (
	"slices"
	"testing"
)

func TestCan(t *testing.T) {
	acme := &App{Name: "acme", Prefixes: []string{"acme-*", "ses.acme"}}
	for _, c := range []struct {
		app    *App
		grants []Grant
		role   Role
		name   string
		want   bool
	}{
		{acme, []Grant{{Produce, ""}}, Produce, "acme-mail", true},
		{acme, []Grant{{Produce, ""}}, Produce, "acme-mail.otp", true},
		{acme, []Grant{{Produce, ""}}, Produce, "ses.acme", true},
		{acme, []Grant{{Produce, ""}}, Produce, "ses", false},
		{acme, []Grant{{Produce, ""}}, Produce, "ses.beta", false},
		{acme, []Grant{{Produce, ""}}, Consume, "acme-mail", false},
		{acme, []Grant{{Admin, ""}}, Consume, "acme-mail", true},
		{acme, []Grant{{Admin, ""}}, Consume, "beta-mail", false},
		{acme, []Grant{{Admin, "acme-mail"}}, Consume, "acme-mail", true},
		{acme, []Grant{{Admin, "acme-mail"}}, Consume, "acme-push", false},
		{acme, []Grant{{View, "acme-m*"}, {Produce, "acme-p*"}}, View, "acme-push", false},
		{acme, []Grant{{View, "acme-m*"}, {Produce, "acme-p*"}}, Produce, "acme-push", true},
		{acme, []Grant{{View, "acme-m*"}, {Produce, "acme-m*"}}, Produce, "acme-mail", true},
		// The app lost the prefix after the grant was made.
		{acme, []Grant{{Admin, "beta-*"}}, View, "beta-mail", false},
		{acme, []Grant{{Admin, "*"}}, View, "beta-mail", false},
		{acme, []Grant{{"root", ""}}, "root", "acme-mail", false},
		{acme, []Grant{{Admin, ""}}, "root", "acme-mail", false},
		{acme, []Grant{{Admin, ""}}, "", "acme-mail", false},
		{acme, nil, View, "acme-mail", false},
		{nil, []Grant{{Admin, ""}}, Configure, "whatever", true},
		{nil, []Grant{{Admin, "*"}}, Configure, "whatever", true},
		{nil, []Grant{{View, "ses*"}}, View, "ses.otp", true},
		{nil, []Grant{{View, "ses*"}}, View, "acme-mail", false},
	} {
		i := &Identity{App: c.app, grants: compact(c.grants)}
		if got := i.Can(c.role, c.name); got != c.want {
			t.Errorf("%v, %s of %s: %v, want %v", c.grants, c.role, c.name, got, c.want)
		}
	}
}

func TestEverythingAndPrefixes(t *testing.T) {
	acme := &App{Name: "acme", Prefixes: []string{"acme-*", "ses.acme"}}
	for _, c := range []struct {
		app        *App
		grants     []Grant
		everything bool
		prefixes   []string
	}{
		{acme, []Grant{{View, ""}}, false, []string{"acme-*", "ses.acme"}},
		{acme, []Grant{{Admin, ""}, {View, "acme-mail"}}, false, []string{"acme-*", "ses.acme"}},
		{acme, []Grant{{View, "acme-mail"}, {View, "acme-m*"}}, false, []string{"acme-m*"}},
		{acme, []Grant{{View, "beta-*"}}, false, nil},
		{acme, []Grant{{Produce, ""}}, false, nil},
		{nil, []Grant{{View, ""}}, true, []string{"*"}},
		{nil, []Grant{{View, "*"}, {View, ""}}, true, []string{"*"}},
		{nil, []Grant{{Admin, "*"}}, true, []string{"*"}},
		{nil, []Grant{{View, "ses*"}}, false, []string{"ses*"}},
		{nil, []Grant{{Produce, ""}}, false, nil},
	} {
		i := &Identity{App: c.app, grants: compact(c.grants)}
		if got := i.Everything(View); got != c.everything {
			t.Errorf("%v of %v: everything: %v", c.grants, c.app, got)
		}
		if got := i.Prefixes(View); !slices.Equal(got, c.prefixes) {
			t.Errorf("%v of %v: %v, want %v", c.grants, c.app, got, c.prefixes)
		}
	}
	if o := Operator("store"); !o.Everything(Admin) || !o.Can(Payloads, "x") || o.Actor.Name != "store" {
		t.Error("an operator cannot do everything")
	}
}
