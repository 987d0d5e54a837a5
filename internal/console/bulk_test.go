package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// halfway is an API whose purges affect a number of jobs each, and fail from some request on.
type halfway struct {
	fakeAPI
	each, requests int
}

func (h *halfway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/purge") {
		h.fakeAPI.ServeHTTP(w, r)
		return
	}
	var asked struct {
		After  string
		DryRun bool `json:"dry_run"`
	}
	_ = json.NewDecoder(r.Body).Decode(&asked)
	switch h.requests--; {
	case asked.DryRun:
		fmt.Fprintf(w, `{"purged":%d}`, h.each)
	case h.requests < 0:
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"title":"the store cannot be reached","reason":"unavailable"}`)
	default:
		fmt.Fprintf(w, `{"purged":%d,"next":"waiting.%d"}`, h.each, h.requests)
	}
}

// A bulk action that fails midway shows the number of jobs done.
func TestBulkThatFails(t *testing.T) {
	for _, c := range []struct {
		each, requests int
		says           string
	}{
		{500, 3, "1,500 jobs were done before the error."},
		{1, 1, "1 job was done before the error."},
		{500, 0, ""},
	} {
		api := &halfway{each: c.each, requests: c.requests}
		v := visit(t, New(Options{API: api}), "POST", "/console/api/v1/queues/email/purge", goodToken, url.Values{
			formBulk: {"Purge all"}, formCounted: {"9"}, formNext: {"/console/queues/email/jobs"},
		})
		if v.StatusCode != http.StatusServiceUnavailable || !strings.Contains(v.body, "the store cannot be reached") ||
			!strings.Contains(v.body, c.says) || strings.Contains(v.body, "before the error") != (c.says != "") {
			t.Errorf("%+v: %d %s", c, v.StatusCode, v.body)
		}
	}
}
