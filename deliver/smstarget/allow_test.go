package smstarget_test

import (
	"strings"
	"testing"

	"github.com/penstock/penstock/deliver/secrets"
)

// allow says where secrets may go; of a URL its host and port count.
func allow(t *testing.T, rules ...string) (all []secrets.Allow) {
	t.Helper()
	for _, rule := range rules {
		a, err := secrets.ParseAllow(strings.NewReplacer("http://", "", "https://", "").Replace(rule))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	return all
}
