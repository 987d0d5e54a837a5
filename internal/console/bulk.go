package console

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"time"

	"github.com/penstock/penstock/internal/wire"
)

// bulkPatience limits how long one form request counts jobs or acts on them.
const bulkPatience = 5 * time.Second

// countView is the data of the page that confirms an action on many jobs.
type countView struct {
	Label  string
	Danger bool
	Path   string // of the API
	Next   string
	Fields []field // the fields of the form, to send again
	Jobs   int64   // jobs that the action would change
	More   bool    // Jobs is a lower bound
	Done   int64   // jobs already changed
}

// bulk does the work of bulk.js for browsers without JavaScript: it counts the jobs first and acts once the user has
// seen the count.
func (c *Console) bulk(w http.ResponseWriter, r, in *http.Request, form url.Values, next string) {
	v := countView{Label: form.Get(formBulk), Danger: form.Get(formDanger) != "", Path: in.URL.EscapedPath(), Next: next}
	var failed *answer
	if form.Get(formCounted) != "" {
		v.Done, v.More, failed = c.actOnMany(in, form, false)
		if failed == nil && !v.More {
			http.Redirect(w, r, next, http.StatusSeeOther)
			return
		}
	}
	if failed == nil {
		form.Del("after")
		v.Jobs, v.More, failed = c.actOnMany(in, form, true)
	}
	if failed != nil {
		f := faultOf(problemIn(failed))
		f.Back, f.Done = next, v.Done
		c.problem(w, r, wire.Whoami{}, f)
		return
	}
	for _, name := range sorted(form) {
		if name != formCounted && name != "after" {
			v.Fields = append(v.Fields, hidden(name, form.Get(name)))
		}
	}
	c.render(w, r, http.StatusOK, "count", &view{Title: v.Label, Data: v})
}

// actOnMany repeats a request until no jobs are left or bulkPatience is over, and returns the number of jobs changed.
func (c *Console) actOnMany(in *http.Request, form url.Values, dryRun bool) (jobs int64, more bool, failed *answer) {
	form = maps.Clone(form)
	if dryRun {
		form.Set("dry_run:json", "true")
	}
	for begun := time.Now(); ; {
		body, err := object(form)
		if err != nil { // unreachable: the form was parsed before
			return jobs, true, nil
		}
		part := in.Clone(in.Context())
		part.Header.Set("Content-Type", "application/json")
		part.Body, part.ContentLength = readCloser(body), int64(len(body))
		out := newAnswer(in, http.MethodPost)
		c.o.API.ServeHTTP(out, part)
		if out.status/100 != 2 {
			return jobs, true, out
		}
		var done struct { // both kinds of responses have Next
			wire.Decided
			Purged int64 `json:"purged"`
		}
		if json.Unmarshal(out.body.Bytes(), &done) != nil {
			return jobs, true, nil
		}
		jobs += done.Matched - done.Left() + done.Purged
		if done.Next == "" || time.Since(begun) > bulkPatience {
			return jobs, done.Next != "", nil
		}
		form.Set("after", done.Next)
	}
}
