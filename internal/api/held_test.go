package api_test

import (
	"bytes"
	"fmt"
	"mime"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/pull"
)

// contract is openapi.json, to which every answer of every test is held.
type contract struct {
	doc    map[string]any
	schema *jsonschema.Compiler

	mu       sync.Mutex
	compiled map[string]*jsonschema.Schema
}

var published = sync.OnceValues(func() (*contract, error) {
	rec := httptest.NewRecorder()
	api.New(newEngine(), api.Options{}).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/openapi.json", nil))
	doc, err := jsonschema.UnmarshalJSON(rec.Body)
	if err != nil {
		return nil, err
	}
	c := &contract{doc: doc.(map[string]any), schema: jsonschema.NewCompiler(), compiled: map[string]*jsonschema.Schema{}}
	c.schema.AssertFormat()
	return c, c.schema.AddResource("openapi.json", doc)
})

// held passes requests on and holds their answers to the contract.
func held(t *testing.T, h http.Handler) http.Handler {
	c, err := published()
	if err != nil {
		t.Fatal(err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := &recorder{ResponseWriter: w, status: 200}
		h.ServeHTTP(rec, r)
		if r.Context().Err() != nil && rec.body.Len() == 0 { // the client is gone
			return
		}
		if err := c.check(r, rec); err != nil {
			t.Errorf("%s %.100s: %d: %v\n%.500s", r.Method, r.URL.Path, rec.status, err, rec.body.String())
		}
	})
}

// recorder keeps the answer that it passes on.
type recorder struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *recorder) WriteHeader(status int) {
	if status >= 200 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.body.Len() < 1<<20 { // enough to judge by; a stream may be endless
		r.body.Write(b)
	}
	return r.ResponseWriter.Write(b)
}

// check finds the operation, the status and the content type in the document and
// the body's schema under it.
func (c *contract) check(r *http.Request, rec *recorder) error {
	if rec.status == 404 && strings.Contains(rec.body.String(), `"not_found"`) || rec.status == 405 {
		return c.body("/components/responses/NotFound", "application/problem+json", rec.body.Bytes())
	}
	path := template(r.URL.EscapedPath())
	method := strings.ToLower(r.Method)
	if method == "head" {
		method = "get" // HTTP says that it is the same without a body
	}
	at := "/paths/" + strings.ReplaceAll(path, "/", "~1") + "/" + method + "/responses/" + fmt.Sprint(rec.status)
	response, at := c.find(at)
	if response == nil {
		return fmt.Errorf("%s does not tell of it", at)
	}
	content, _ := response["content"].(map[string]any)
	typ, _, _ := mime.ParseMediaType(rec.Header().Get("Content-Type"))
	if content == nil && rec.body.Len() == 0 {
		return nil
	}
	if _, ok := content[typ]; !ok {
		return fmt.Errorf("%s does not have %q", at, typ)
	}
	if rec.status == 429 || rec.status == 503 || rec.status == 504 {
		if rec.Header().Get("Retry-After") == "" {
			return fmt.Errorf("no Retry-After")
		}
	}
	if typ == "application/x-ndjson" {
		for _, text := range bytes.SplitAfter(rec.body.Bytes(), []byte("\n")) {
			if !bytes.HasSuffix(text, []byte("\n")) {
				break // cut off by the recorder
			}
			if err := c.body(at, typ, text); err != nil {
				return fmt.Errorf("%w in %s", err, text)
			}
		}
		return nil
	}
	return c.body(at, typ, rec.body.Bytes())
}

func (c *contract) body(at, typ string, body []byte) error {
	if !strings.HasSuffix(typ, "json") {
		return nil
	}
	where := "openapi.json#" + strings.ReplaceAll(
		strings.ReplaceAll(at, "{", "%7B"), "}", "%7D",
	) + "/content/" + strings.ReplaceAll(typ, "/", "~1") + "/schema"
	c.mu.Lock()
	defer c.mu.Unlock()
	schema := c.compiled[where]
	if schema == nil {
		var err error
		if schema, err = c.schema.Compile(where); err != nil {
			return err
		}
		c.compiled[where] = schema
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// find follows a JSON pointer, and a reference at its end.
func (c *contract) find(at string) (map[string]any, string) {
	node := any(c.doc)
	for _, name := range strings.Split(at, "/")[1:] {
		m, _ := node.(map[string]any)
		node = m[strings.ReplaceAll(name, "~1", "/")]
	}
	m, _ := node.(map[string]any)
	if ref, ok := m["$ref"].(string); ok {
		return c.find(strings.TrimPrefix(ref, "#"))
	}
	return m, at
}

// template is the path of the document that a request's path belongs to.
func template(path string) string {
	parts := strings.Split(path, "/")
	if len(parts) > 3 && parts[2] == "queues" {
		parts[3] = "{queue}"
	}
	if len(parts) > 3 && parts[2] == "rules" {
		parts[3] = "{rule}"
	}
	for kind, name := range map[string]string{"apps": "{app}", "tokens": "{token}", "subjects": "{subject}"} {
		if len(parts) > 3 && parts[2] == kind {
			parts[3] = name
		}
	}
	if len(parts) > 5 && parts[4] == "jobs" {
		parts[5] = "{id}"
	}
	if len(parts) > 5 && parts[4] == "batches" { // a label may have slashes
		parts = append(parts[:5], "{batch}")
	}
	return strings.Join(parts, "/")
}

// Every operation that is served is in the document, and the other way round;
// likewise every reason.
func TestDocumentIsComplete(t *testing.T) {
	c, err := published()
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for path, item := range c.doc["paths"].(map[string]any) {
		for method := range item.(map[string]any) {
			if method != "parameters" {
				operation := item.(map[string]any)[method].(map[string]any)["operationId"]
				documented[fmt.Sprint(operation, " ", strings.ToUpper(method), " ", path)] = true
			}
		}
	}
	for _, served := range api.Operations() {
		if !documented[served] {
			t.Errorf("%s is served and not documented", served)
		}
		delete(documented, served)
	}
	for missing := range documented {
		t.Errorf("%s is documented and not served", missing)
	}
	reasons, _ := c.find("/components/schemas/Reason")
	listed := map[string]bool{}
	for _, reason := range reasons["enum"].([]any) {
		listed[reason.(string)] = true
	}
	page, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, reason := range httpio.Reasons() {
		if !strings.Contains(string(page), "\n#### "+reason.Code+"\n"+strconv.Itoa(reason.Status)+". ") {
			t.Errorf("docs/api.md, to which a problem's type points, does not explain %s", reason.Code)
		}
		if !listed[reason.Code] {
			t.Errorf("reason %s is not documented", reason.Code)
		}
		delete(listed, reason.Code)
	}
	if len(listed) > 0 {
		t.Errorf("documented reasons that nothing answers with: %v", listed)
	}
	// Everything in it is a schema that can be compiled, used by the tests or not.
	for name := range c.doc["components"].(map[string]any)["schemas"].(map[string]any) {
		if _, err := c.schema.Compile("openapi.json#/components/schemas/" + name); err != nil {
			t.Error(err)
		}
	}
	if c.doc["openapi"] != "3.1.0" {
		t.Errorf("openapi is %v", c.doc["openapi"])
	}
}

// Held jobs are listed and decided about, one by one and by the many.
func TestHeldJobs(t *testing.T) {
	f, _ := servePull(t, pull.Options{})
	f.do("PUT", email, `{"rate":"unlimited","pull":true}`).want(t, 201)
	for _, id := range []string{"a", "b", "c", "d"} {
		f.do("POST", jobs, `{"payload":1,"id":"`+id+`"}`).want(t, 202)
	}
	leases := f.pulled(`{"max":4,"wait":"30s"}`, "a", "b", "c", "d")
	for i, l := range leases {
		leases[i] = l + `,"outcome":"held","reason":"the connection was lost"`
	}
	f.do("POST", email+"/settle", list(leases...)).want(t, 200)
	f.do("GET", jobs+"?state=held&reason=lost&limit=1", "").want(t, 200)
	f.do("GET", jobs+"/a", "").want(t, 200, "state", "held", "reason", "the connection was lost")
	f.do("POST", jobs+"/a/cancel", "").want(t, 409, "reason", "not_cancellable", "state", "held")

	f.do("POST", jobs+"/a/decide", `{"decision":"perhaps"}`).want(t, 400, "field", "decision")
	f.do("POST", jobs+"/a/decide", `{"decision":"release","note":"x"}`).want(t, 400, "field", "note")
	f.do("POST", jobs+"/none/decide", `{"decision":"release"}`).want(t, 404, "reason", "unknown_job")
	for range 2 { // it may be repeated
		f.do("POST", jobs+"/a/decide", `{"decision":"delivered","note":"in their log"}`).want(t, 200, "state", "delivered")
	}
	f.do("POST", jobs+"/a/decide", `{"decision":"dead"}`).want(t, 409, "reason", "not_held", "state", "delivered")
	f.do("GET", jobs+"/a", "").want(t, 200, "reason", "in their log")

	f.do("POST", email+"/decide", `{}`).want(t, 400, "field", "decision")
	f.do("POST", email+"/decide", `{"decision":"dead","ids":["b"],"reason":"x"}`).want(t, 400, "field", "ids")
	f.do(
		"POST", email+"/decide", `{"decision":"dead","reason":"lost","dry_run":true}`,
	).want(t, 200, "matched", 3.0, "looked_at", 3.0)
	f.do("POST", email+"/decide", `{"decision":"dead","ids":["b","a"]}`).want(t, 200, "dead", 1.0, "not_held", 1.0)
	f.do("POST", email+"/decide", `{"decision":"release","reason":"lost"}`).want(t, 200, "released", 2.0)
	f.pulled(`{"max":4,"wait":"30s"}`, "c", "d")
}
