package console

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"strings"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

// maxForm is the maximum size of a form, maxAnswer of a response shown on a page, both in bytes.
const (
	maxForm   = 1 << 20
	maxAnswer = 16 << 10
)

// pass forwards a page's request to the API on behalf of the user: /console/api/v1/whoami becomes /v1/whoami.
// It streams the response.
func (c *Console) pass(w http.ResponseWriter, r *http.Request) {
	in := r.Clone(r.Context())
	in.URL.Path = strings.TrimPrefix(r.URL.Path, Root+"/api")
	in.URL.RawPath = strings.TrimPrefix(r.URL.RawPath, Root+"/api")
	if !strings.HasPrefix(in.URL.Path, "/v1/") {
		c.problem(w, r, wire.Whoami{}, &fault{Status: http.StatusNotFound, Title: "Unknown operation"})
		return
	}
	identify(in, r)
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil &&
		kind == "application/x-www-form-urlencoded" {
		c.submit(w, r, in)
		return
	}
	c.o.API.ServeHTTP(w, in)
}

// Fields of a form that control the console and are not sent to the API.
const (
	formMethod  = "_method"  // the method of the request; the default is POST
	formMatch   = "_match"   // If-Match: the revision that the page showed
	formNext    = "_next"    // the page to open afterwards
	formShow    = "_show"    // show the response first
	formBulk    = "_bulk"    // the label of an action on many jobs
	formDanger  = "_danger"  // the action destroys something
	formCounted = "_counted" // the user has seen the number of jobs
)

// submit converts a form to an API request; see object. Without JavaScript it answers with a page.
func (c *Console) submit(w http.ResponseWriter, r, in *http.Request) {
	if _, err := c.client(r).Whoami(r.Context()); err != nil { // check the user before reading the form
		c.refused(w, r, wire.Whoami{}, err)
		return
	}
	if f := readForm(w, r); f != nil {
		c.badForm(w, r, f)
		return
	}
	form := r.PostForm
	next := c.ownPath(form.Get(formNext))
	body, err := object(form)
	if err != nil {
		c.badForm(w, r, &fault{Title: "Invalid form", Detail: err.Error(), Back: next})
		return
	}
	in.Method = http.MethodPost
	if method := form.Get(formMethod); method == http.MethodPut || method == http.MethodDelete {
		in.Method = method
	}
	in.Header.Del("Content-Type")
	in.Header.Del("Content-Length")
	in.Body, in.ContentLength = http.NoBody, 0
	if body != nil {
		in.Header.Set("Content-Type", "application/json")
		in.Body, in.ContentLength = readCloser(body), int64(len(body))
	}
	if match := form.Get(formMatch); match != "" {
		in.Header.Set("If-Match", `"`+match+`"`)
	}
	if wantsJSON(r) {
		c.o.API.ServeHTTP(w, in)
		return
	}
	if form.Get(formBulk) != "" {
		c.bulk(w, r, in, form, next)
		return
	}
	out := newAnswer(in, in.Method)
	c.o.API.ServeHTTP(out, in)
	switch {
	case out.status/100 != 2:
		f := faultOf(problemIn(out))
		f.Back = next
		c.problem(w, r, wire.Whoami{}, f)
	case form.Get(formShow) != "" && out.body.Len() <= maxAnswer:
		var text bytes.Buffer
		if json.Indent(&text, out.body.Bytes(), "", "  ") != nil {
			text = out.body
		}
		c.render(w, r, http.StatusOK, "answer", &view{Title: "Done", Data: answered{text.String(), next}})
	default:
		http.Redirect(w, r, next, http.StatusSeeOther)
	}
}

// badForm refuses a form that cannot become an API request.
func (c *Console) badForm(w http.ResponseWriter, r *http.Request, f *fault) {
	if f.Status == 0 {
		f.Status = http.StatusBadRequest
	}
	if wantsJSON(r) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(f.Status)
		_ = json.NewEncoder(w).Encode(client.Problem{Status: f.Status, Title: f.Title, Detail: f.Detail})
		return
	}
	c.problem(w, r, wire.Whoami{}, f)
}

// answered is the data of the page that shows an API response.
type answered struct{ Text, Next string }
