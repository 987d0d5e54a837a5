package console

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"time"

	"github.com/penstock/penstock/internal/wire"
)

// bulkPatience is for how long one request counts jobs, or acts on them, of as many as there are.
const bulkPatience = 5 * time.Second

// countView is what the page shows on which an action on many jobs is confirmed.
type countView struct {
	Label  string
	Danger bool
	Path   string // of the API
	Next   string
	Fields []field // of the form, again
	Jobs   int64   // that it would act on
	More   bool    // or more
	Done   int64   // that it has acted on
}

// bulk does without JavaScript what bulk.js does: it counts the jobs first, and acts when that was seen.
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

// actOnMany repeats a request until nothing is left, or its patience is over, and sums up how many jobs it came to.
func (c *Console) actOnMany(in *http.Request, form url.Values, dryRun bool) (jobs int64, more bool, failed *answer) {
	form = maps.Clone(form)
	if dryRun {
		form.Set("dry_run:json", "true")
	}
	for begun := time.Now(); ; {
		body, err := object(form)
		if err != nil { // it was one before
			return jobs, true, nil
		}
		one := in.Clone(in.Context())
		one.Header.Set("Content-Type", "application/json")
		one.Body, one.ContentLength = readCloser(body), int64(len(body))
		out := newAnswer(in, http.MethodPost)
		c.o.API.ServeHTTP(out, one)
		if out.status/100 != 2 {
			return jobs, true, out
		}
		var done struct { // either has a Next
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
