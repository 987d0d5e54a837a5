package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

// auditPage is the number of entries on a page.
const auditPage = 100

// auditView is the data of the audit page.
type auditView struct {
	Asked   client.AuditQuery
	Since   string // a key of spans
	Choices []field
	Rows    []auditRow
	// Older links to older entries; empty if there are none.
	Older string
	Call  action
}

type auditRow struct {
	wire.AuditRecord
	Key           string
	At            time.Time
	Link          string // the page of the changed object; may be empty
	Before, After string // indented
}

// spans maps the choices of the "In the last" field to durations.
var spans = map[string]time.Duration{"": 0, "an hour": time.Hour, "a day": 24 * time.Hour, "a week": 7 * 24 * time.Hour}

func readAudit(r *request) (any, error) {
	asked := r.URL.Query()
	v := auditView{
		Asked: client.AuditQuery{
			App: asked.Get("app"), Actor: asked.Get("actor"), Of: asked.Get("of"), Name: asked.Get("name"),
			What: asked.Get("what"), Refused: asked.Get("refused") != "", After: asked.Get("after"), Limit: auditPage,
		},
		Since: asked.Get("since"),
	}
	span, known := spans[v.Since]
	if !known {
		return nil, &client.Problem{
			Status: 400, Title: "Unknown choice", Field: "since",
			Detail: fmt.Sprintf("is %.40q, must be an hour, a day or a week", v.Since),
		}
	}
	if span > 0 {
		v.Asked.Since = time.Now().Add(-span)
	}
	page, err := r.api.Audit(r.Context(), v.Asked)
	if err != nil {
		return nil, err
	}
	v.Choices = []field{
		{Name: "actor", Label: "Actor", Value: v.Asked.Actor, Hint: "token:4f1cq02mx7ab"},
		{Name: "of", Label: "Kind", Value: v.Asked.Of, Options: []string{"", "queue", "rule", "app", "token", "subject"}},
		{Name: "name", Label: "Name", Value: v.Asked.Name},
		{Name: "what", Label: "Action", Value: v.Asked.What, Hint: "changed"},
		{Name: "app", Label: "App", Value: v.Asked.App},
		{Name: "since", Label: "In the last", Value: v.Since, Options: []string{"", "an hour", "a day", "a week"}},
	}
	for i := range page.Records {
		v.Rows = append(v.Rows, r.auditRow(&page.Records[i]))
	}
	if page.More && page.Next != "" {
		asked.Set("after", page.Next)
		v.Older = r.console.path("audit") + "?" + asked.Encode()
	}
	v.Call = auditCall(&v, span)
	return v, nil
}

func (r *request) auditRow(record *wire.AuditRecord) auditRow {
	e := &record.Entry
	row := auditRow{
		AuditRecord: *record, Key: fmt.Sprintf("%d-%d", e.Partition, e.Number), At: time.UnixMicro(e.At).UTC(),
		Before: indented(record.Before), After: indented(record.After),
	}
	if at := pagesOf[e.Of]; at != "" && e.Name != "" {
		row.Link = r.console.path(at, e.Name)
	}
	return row
}

// pagesOf maps kinds of objects to the paths of their pages.
var pagesOf = map[string]string{"queue": "queues", "rule": "rules", "app": "apps", "subject": "subjects"}

func indented(text json.RawMessage) string {
	var b bytes.Buffer
	if len(text) == 0 || json.Indent(&b, text, "", "  ") != nil {
		return string(text)
	}
	return b.String()
}

// auditCall returns the API call behind the page.
func auditCall(v *auditView, span time.Duration) action {
	query := url.Values{}
	c := action{Method: "GET", Path: "/v1/audit", Command: []string{"audit", "ls"}}
	for _, of := range [][2]string{
		{"actor", v.Asked.Actor}, {"of", v.Asked.Of}, {"name", v.Asked.Name}, {"what", v.Asked.What}, {"app", v.Asked.App},
	} {
		if of[1] != "" {
			query.Set(of[0], of[1])
			c.Command = append(c.Command, "--"+of[0], of[1])
		}
	}
	if v.Asked.Refused {
		query.Set("refused", "true")
		c.Command = append(c.Command, "--refused")
	}
	if span > 0 {
		query.Set("since", v.Asked.Since.UTC().Format(time.RFC3339))
		c.Command = append(c.Command, "--since", fmt.Sprintf("%dh", span/time.Hour))
	}
	if len(query) > 0 {
		c.Path += "?" + query.Encode()
	}
	return c
}
