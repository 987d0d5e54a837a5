package api

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/auth"
)

//go:generate go test -run ^TestRolesPageFollowsTheRoutes$ . -args -update

var rolesTable = regexp.MustCompile(`(?m)^\|operation\|.*\n(?:\|.*\n)*`)

// docs/roles.md has the roles that each route needs. The rows have no spaces, as each would count as a word.
func TestRolesPageFollowsTheRoutes(t *testing.T) {
	const name = "../../docs/roles.md"
	old, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	text := rolesTable.ReplaceAllLiteralString(string(old), tableOfRoles())
	switch {
	case text == string(old):
	case !*update:
		t.Error("docs/roles.md is stale: run go generate ./internal/api")
	default:
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil { //nolint:gosec // for all to read
			t.Fatal(err)
		}
	}
}

var whoseNames = map[whose]string{
	nobody: "nobody", anybody: "anybody", theQueue: "queue", theRule: "rule", anything: "anything",
	everything: "everything",
}

func tableOfRoles() string {
	var b strings.Builder
	b.WriteString("|operation|for|")
	for _, role := range auth.Roles() {
		b.WriteString(string(role) + "|")
	}
	b.WriteString("\n|---|---|" + strings.Repeat(":-:|", len(auth.Roles())) + "\n")
	for _, rt := range routes {
		b.WriteString("|`" + rt.operation + "`|" + whoseNames[rt.need.of] + "|")
		for _, role := range auth.Roles() {
			if rt.need.of <= anybody || role == auth.Admin || slices.Contains(rt.need.roles, role) {
				b.WriteString("✓")
			}
			b.WriteString("|")
		}
		b.WriteString("\n")
	}
	return b.String()
}
