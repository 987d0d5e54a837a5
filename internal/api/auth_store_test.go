package api_test

import (
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/auth"
)

// Where targets may be besides at public addresses is told to those who may have them there.
func TestEgressIsToldToWhoConfigures(t *testing.T) {
	const network = "10.20.0.0/16"
	s := secure(t, api.Options{EgressAllow: []string{network}})
	for _, c := range []struct {
		roles []auth.Role
		told  bool
	}{
		{[]auth.Role{auth.View}, false},
		{[]auth.Role{auth.View, auth.Operate}, false},
		{[]auth.Role{auth.View, auth.Configure}, true},
		{[]auth.Role{auth.Admin}, true},
	} {
		a := s.by(s.with("", c.roles...), "GET", "/v1/store", "")
		a.want(t, 200)
		if told := strings.Contains(a.text, network); told != c.told {
			t.Errorf("%v is told: %v, want %v", c.roles, told, c.told)
		}
	}
}
