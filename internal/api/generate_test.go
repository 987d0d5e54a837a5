package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/quote"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/status"
)

//go:generate go test -run ^TestOpenAPIFollowsTheTables$ . -args -update

var update = flag.Bool("update", false, "write openapi.json again, as the tables say")

// What openapi.json says of refusals, states, counters, algorithms and settings is that of the tables in package queue
// and in httpio/reasons.go.
func TestOpenAPIFollowsTheTables(t *testing.T) {
	was, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(was)
	doc = withList(doc, list(httpio.Reasons(), func(r httpio.Reason) string { return r.Code }), "Reason", "enum")
	doc = withList(doc, stateNames(), "State", "enum")
	doc = withList(
		doc, list(status.Codes(), func(c status.Code) string { return string(c) }), "QueueStatus", "code", "enum",
	)
	doc = withList(
		doc, list(changekind.Kinds, func(k changekind.Kind) string { return string(k) }), "ChangeKind", "enum",
	)

	doc = withList(
		doc, list(rules.Algorithms(), func(a leaky.Algorithm) string { return string(a) }), "RuleSpec", "algorithm", "enum",
	)
	doc = withUsers(doc)
	doc = withList(doc, list(quote.Doubts(), func(d quote.Doubt) string { return string(d) }), "Departure", "why", "enum")

	kinds, means := eventKinds()
	doc = withList(doc, kinds, "EventKind", "enum")
	at, _ := find(doc, "EventKind", "description")
	end := at + strings.Index(doc[at:], "\n")
	doc = doc[:at] + strconv.Quote(described("The name of an event.", kinds, means)) + "," + doc[end:]

	counters := list(queue.CounterTable, func(c queue.Counter) string { return c.Name })
	held := []string{"waiting", "scheduled", "leased", "held", "deferred", "dead", "lanes"}
	doc = withList(doc, append(append(held, counters...), "outflow", "errors"), "Stats", "required")
	var properties strings.Builder
	for _, c := range queue.CounterTable {
		fmt.Fprintf(&properties, `"%s": {
            "type": "integer",
            "minimum": 0,
            "description": "%s"
          },
          `, c.Name, c.Help)
	}
	_, at = find(doc, "Stats", counters[0])
	_, end = find(doc, "Stats", "oldest_waiting")
	doc = doc[:at] + properties.String() + doc[end:]

	doc = withSettings(t, doc)
	var short bytes.Buffer
	if err := json.Compact(&short, []byte(doc)); err != nil {
		t.Fatal(err)
	}
	if *update {
		err := errors.Join(
			os.WriteFile("openapi.json", []byte(doc), 0o644), os.WriteFile("openapi.min.json", short.Bytes(), 0o644),
		)
		if err != nil {
			t.Fatal(err)
		}
	} else if doc != string(was) || !bytes.Equal(short.Bytes(), openAPIDocument) {
		t.Error("openapi.json is stale: run go generate ./internal/api")
	}
}

// withUsers says of each number of a bound which algorithms go by it.
func withUsers(doc string) string {
	users := map[string][]string{}
	for _, a := range rules.Algorithms() {
		for _, number := range rules.Numbers(a) {
			users[number] = append(users[number], string(a))
		}
	}
	for number, names := range users {
		at, _ := find(doc, "Bound", number, "description")
		end := at + strings.Index(doc[at:], ": ")
		doc = doc[:at] + `"For ` + enumeration(names) + doc[end:]
	}
	return doc
}

// enumeration joins names as a sentence does: a, b and c.
func enumeration(names []string) string {
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// described is a text with what names mean behind it.
func described(text string, names, means []string) string {
	for n, name := range names {
		text += " " + name + ": " + means[n]
	}
	return text
}

func stateNames() (all []string) {
	for s := queue.Waiting; s <= queue.Expired; s++ {
		all = append(all, s.String())
	}
	return all
}

func list[T any](rows []T, name func(T) string) []string {
	all := make([]string, len(rows))
	for n := range rows {
		all[n] = name(rows[n])
	}
	return all
}

// find returns where the member at the end of a path stands, and where its name begins.
func find(doc string, path ...string) (value, name int) {
	for _, member := range path {
		quoted := `"` + member + `": `
		name = value + strings.Index(doc[value:], quoted)
		value = name + len(quoted)
	}
	return value, name
}

// withList replaces the list of strings at a path.
func withList(doc string, list []string, path ...string) string {
	at, _ := find(doc, path...)
	end := at + strings.Index(doc[at:], "]")
	between := doc[at+1:][:strings.Index(doc[at+1:], `"`)] // the line's end and the next one's indentation
	last := doc[:end]
	last = last[strings.LastIndex(last, "\n"):]
	return doc[:at] + "[" + between + `"` + strings.Join(list, `",`+between+`"`) + `"` + last + doc[end:]
}

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
