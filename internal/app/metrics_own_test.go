package app_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/engines"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// A running ingress serves an app the metrics of its own queues, counted and measured. The operator's page is as it is
// without apps.
func TestAppScrapesItsOwnQueues(t *testing.T) {
	engines.Each(t, func(t *testing.T, e queue.Engine) {
		if _, err := e.PutDocument(t.Context(), document.Document{
			Kind: "app", Name: "acme", Text: []byte(`{"name":"acme","prefixes":["acme-*"]}`),
		}, queue.AnyRevision); err != nil {
			t.Fatal(err)
		}
		authority, err := auth.New(e, auth.Options{})
		if err != nil {
			t.Fatal(err)
		}
		in, err := app.NewIngress(e, app.IngressOptions{Listen: ops.Listen{Addr: "127.0.0.1:0"}, Auth: authority})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- in.Run(ctx) }()
		defer func() {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		await.Until(t, "the authority is ready", func() bool { return authority.Ready() == nil })
		token := func(app string, role auth.Role) string {
			secret, _, err := authority.CreateToken(
				t.Context(), auth.Operator("test"), auth.Token{App: app, Grants: []auth.Grant{{Role: role}}},
			)
			if err != nil {
				t.Fatal(err)
			}
			return secret
		}
		ask := func(token, method, path, body string) (int, string) {
			req, err := http.NewRequestWithContext(t.Context(), method, in.URL()+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+token)
			req.Header.Set("Content-Type", "application/json")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			text, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			return resp.StatusCode, string(text)
		}
		operator, view := token("", auth.Admin), token("acme", auth.View)
		for _, name := range []string{"acme-mail", "beta-mail"} {
			if _, err := e.Put(t.Context(), queue.Spec{Name: name, Rate: leaky.PerSecond(1), Pull: true}, 0); err != nil {
				t.Fatal(err)
			}
			if status, text := ask(operator, "POST", "/v1/queues/"+name+"/jobs", `{"id":"1","payload":1}`); status != 202 {
				t.Fatal(status, text)
			}
		}
		var own string
		await.Until(t, "acme's page has its queue", func() bool {
			_, own = ask(view, "GET", "/metrics", "")
			return strings.Contains(own, `penstock_jobs{app="acme",queue="acme-mail",state="waiting"} 1`)
		})
		if !strings.Contains(own, `penstock_appended_total{app="acme",outcome="accepted",queue="acme-mail"} 1`) ||
			strings.Contains(own, "beta") || strings.Contains(own, "_other") || strings.Contains(own, "go_goroutines") {
			t.Errorf("acme's page is\n%s", own)
		}
		if status, text := ask(token("acme", auth.Produce), "GET", "/metrics", ""); status != http.StatusForbidden {
			t.Errorf("without view it is answered %d %s", status, text)
		}
		if _, all := ask(operator, "GET", "/metrics", ""); strings.Contains(all, `app="`) ||
			!strings.Contains(all, `penstock_appended_total{outcome="accepted",queue="beta-mail"} 1`) ||
			!strings.Contains(all, "go_goroutines") {
			t.Errorf("the operator's page is\n%s", all)
		}
	})
}
