package api_test

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/auth"
)

// bodies are what operations are sent that take something else than an empty object.
var bodies = map[string]string{
	"appendJobs":    `{"payload":1}`,
	"awaitTurn":     `{"wait":"100ms"}`,
	"decideJob":     `{"decision":"dead"}`,
	"decideJobs":    `{"decision":"dead"}`,
	"putQueue":      `{"rate":"100/s","pull":true}`,
	"putRule":       `{"algorithm":"meter","rate":"1000/s","burst":1000}`,
	"quoteQueue":    `{"jobs":1}`,
	"rollbackQueue": `{"dry_run":true}`,
	"refundRule":    `{"lease":"x"}`,
	"purgeQueue":    `{"state":"waiting","dry_run":true}`,
}

// call is an operation as a test sends it.
func (s *secured) call(token string, op api.Operation, queue, rule string) *answer {
	s.t.Helper()
	path := strings.NewReplacer(
		"{queue}", queue, "{rule}", rule, "{id}", "j1", "{app}", "nobody", "{token}", "abcdefghijkl",
		"{subject}", "unix:7",
	).Replace(op.Path)
	if op.Name == "listJobs" {
		path += "?state=waiting"
	}
	body := ""
	if op.Method != http.MethodGet && op.Method != http.MethodDelete {
		if body = bodies[op.Name]; body == "" {
			body = "{}"
		}
	}
	if strings.HasPrefix(op.Name, "follow") { // what is answered does not end
		st := follow(s.fixture, path, "Authorization", "Bearer "+token)
		defer st.close()
		return st.answer
	}
	if token == "" {
		return s.do(op.Method, path, body)
	}
	return s.by(token, op.Method, path, body)
}

// restore brings back what an operation may have deleted.
func (s *secured) restore(op api.Operation) {
	s.t.Helper()
	switch op.Name {
	case "deleteQueue":
		s.put("/v1/queues/"+acmeQueue, bodies["putQueue"])
	case "deleteRule":
		s.put("/v1/rules/"+acmeRule, bodies["putRule"])
	}
}

var rolesRow = regexp.MustCompile("(?m)^\\|`(\\w+)`\\|([^|]*)\\|(.*)\\|$")

// Each cell of the table in docs/roles.md is tried on the handler: with what is the app's own, and with what is not.
func TestEveryRoleWithEveryOperation(t *testing.T) {
	page, err := os.ReadFile("../../docs/roles.md")
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		of    string
		roles map[auth.Role]bool
	}
	rows := map[string]row{}
	for _, m := range rolesRow.FindAllStringSubmatch(string(page), -1) {
		r := row{m[2], map[auth.Role]bool{}}
		for i, cell := range strings.Split(m[3], "|") {
			r.roles[auth.Roles()[i]] = cell != ""
		}
		rows[m[1]] = r
	}
	s := secure(t, api.Options{})
	acme, operator := map[auth.Role]string{}, map[auth.Role]string{}
	for _, role := range auth.Roles() {
		acme[role], operator[role] = s.with("acme", role), s.with("", role)
	}
	for _, op := range api.EachOperation() {
		row, ok := rows[op.Name]
		if !ok {
			t.Errorf("docs/roles.md has no row for %s", op.Name)
			continue
		}
		delete(rows, op.Name)
		if row.of == "nobody" {
			if a := s.call("", op, acmeQueue, acmeRule); a.status == 401 || a.status == 403 {
				t.Errorf("%s without a token: %d %s", op.Name, a.status, a.text)
			}
			continue
		}
		s.call("", op, acmeQueue, acmeRule).want(t, 401, "reason", "unauthenticated")
		for _, role := range auth.Roles() {
			allowed := row.roles[role]
			for _, c := range []struct {
				as, token string
				allowed   bool
			}{
				{"acme", acme[role], allowed && row.of != "everything"},
				{"the operator", operator[role], allowed},
			} {
				a := s.call(c.token, op, acmeQueue, acmeRule)
				reason, _ := a.body["reason"].(string)
				switch {
				case c.allowed && (a.status == 401 || a.status == 403 || reason == "unknown_queue" || reason == "unknown_rule"):
					t.Errorf("%s by %s with the role %s: %d %s", op.Name, c.as, role, a.status, a.text)
				case !c.allowed && (a.status != 403 || reason != "forbidden"):
					t.Errorf(
						"%s by %s with the role %s, which it needs not: %d %s",
						op.Name,
						c.as,
						role,
						a.status,
						a.text,
					)
				}
				s.restore(op)
			}
			if row.of != "queue" && row.of != "rule" {
				continue
			}
			// What is beta's, what nobody has and what is no name at all: the same answer, whatever the role.
			for _, names := range [][2]string{
				{betaQueue, betaRule}, {"none-mail", "none-rule"}, {"ses", "ses"}, {"BETA", "BETA"},
			} {
				a := s.call(acme[role], op, names[0], names[1])
				a.want(t, 404, "reason", "unknown_"+row.of)
				if op.Name == "getQueue" || op.Name == "getRule" { // as it is answered to whom all names are his
					b := s.call(s.operator, op, "none-mail", "none-rule")
					name := map[string]string{"queue": names[0], "rule": names[1]}[row.of]
					if got := strings.ReplaceAll(a.body["detail"].(string), name, "none-"+map[string]string{
						"queue": "mail", "rule": "rule",
					}[row.of]); got != b.body["detail"] {
						t.Errorf("%s of %s: %s, and of what there is not: %s", op.Name, name, got, b.body["detail"])
					}
				}
			}
		}
	}
	for name := range rows {
		t.Errorf("docs/roles.md has a row for %s, which is no operation", name)
	}
}
