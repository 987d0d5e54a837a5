package api_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/proxy"
	"github.com/penstock/penstock/queue"
)

// Until the apps are known, which is a moment after the start, a call gets an answer after which clients try again. The
// receiver is not blamed.
func TestCallBeforeTheAppsAreKnown(t *testing.T) {
	var server *api.API
	serveTurns(t, `{"rate":"20/s","pull":true,"deliver":{"http":{"url":"http://127.0.0.1:1/"}}}`,
		func(e queue.Engine, o *api.Options) {
			o.Proxy = proxy.New(e, proxy.Options{Turns: o.Turns, Router: deliver.New(deliver.Options{
				Permitted: func(string) (deliver.Permission, error) { return nil, auth.ErrOwnersUnread },
			})})
			t.Cleanup(func() { _ = o.Proxy.Close() })
			server = api.New(e, *o)
		})
	w := httptest.NewRecorder()
	server.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/proxy/calls/v1/x", nil))
	if text := w.Body.String(); w.Code != 503 || w.Header().Get("Retry-After") == "" ||
		!strings.Contains(text, `"not_ready"`) || !strings.Contains(text, "was not sent") {
		t.Errorf("%d %v %s", w.Code, w.Header(), text)
	}
}
