package console

import (
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

// maxForm is the maximum size of a form in bytes.
const maxForm = 1 << 20

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
	formEdit    = "_edit"    // show the form of the settings again instead of the preview
	formLabel   = "_label"   // NAME=LABEL of a visible field, to show the form again
)

// submit converts a form to an API request; see object. Without JavaScript it answers with a page.
func (c *Console) submit(w http.ResponseWriter, r, in *http.Request) {
	who, err := c.client(r).Whoami(r.Context())
	if err != nil { // check the user before reading the form
		c.refused(w, r, who, err)
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
		c.badFormOf(w, r, who, &fault{Title: "Invalid form", Detail: err.Error(), Back: next, Again: again(in, form)})
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
		f.Back, f.Again = next, again(in, form)
		c.problem(w, r, who, f)
	case form.Get(formShow) != "":
		made := answered{Next: next}
		if err := json.Unmarshal(out.body.Bytes(), &made.MadeToken); err != nil {
			c.problem(w, r, who, &fault{Title: "Cannot read the answer", Status: http.StatusBadGateway, Back: next})
			return
		}
		made.May = grantWords(made.Grants)
		c.render(w, r, http.StatusOK, "answer", &view{Title: "New token", Who: who, Data: made})
	default:
		http.Redirect(w, r, next, http.StatusSeeOther)
	}
}

// badForm refuses a form that cannot become an API request.
func (c *Console) badForm(w http.ResponseWriter, r *http.Request, f *fault) {
	c.badFormOf(w, r, wire.Whoami{}, f)
}

func (c *Console) badFormOf(w http.ResponseWriter, r *http.Request, who wire.Whoami, f *fault) {
	if f.Status == 0 {
		f.Status = http.StatusBadRequest
	}
	if wantsJSON(r) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(f.Status)
		_ = json.NewEncoder(w).Encode(client.Problem{Status: f.Status, Title: f.Title, Detail: f.Detail})
		return
	}
	c.problem(w, r, who, f)
}

// again returns the form of a refused request with its input, so that the user can correct it. It is nil if nothing can
// be corrected.
func again(in *http.Request, form url.Values) *action {
	a := &action{
		Label: "Try again", Method: in.Method, Path: in.URL.Path, Next: form.Get(formNext), Show: form.Get(formShow) != "",
	}
	if method := form.Get(formMethod); method != "" {
		a.Method = method
	}
	a.Match, _ = strconv.ParseInt(form.Get(formMatch), 10, 64) // without a revision there is no check
	labeled := map[string]bool{}
	for _, text := range form[formLabel] {
		if name, label, _ := strings.Cut(text, "="); label != "" {
			labeled[name] = true
			a.Fields = append(a.Fields, field{Name: name, Label: label, Value: form.Get(name), Kind: kindOf(name)})
		}
	}
	if len(labeled) == 0 {
		return nil
	}
	for _, name := range sorted(form) {
		if !strings.HasPrefix(name, "_") && !labeled[name] {
			a.Fields = append(a.Fields, hidden(name, form.Get(name)))
		}
	}
	return a
}

// kindOf returns the kind of an input by its name: lists have several lines.
func kindOf(name string) string {
	if strings.HasSuffix(name, ":list") {
		return "lines"
	}
	return ""
}

// answered is the data of the page that shows a new token.
type answered struct {
	wire.MadeToken
	May  []string
	Next string
}
