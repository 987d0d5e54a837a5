package app_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/app/natsserver"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/internal/test/engines"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// Under a prefix with {app}, a queue's target reaches the subjects of the app that has the queue's name, and no others.
func TestTargetsReachTheirAppsSubjects(t *testing.T) {
	server, err := natsserver.Start(t.Context(), natsserver.Options{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	nc, err := nats.Connect(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	engines.Each(t, func(t *testing.T, e queue.Engine) {
		heard, err := nc.SubscribeSync("jobs.>")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = heard.Unsubscribe() }()
		if _, err := e.PutDocument(t.Context(), document.Document{
			Kind: "app", Name: "acme", Text: []byte(`{"name":"acme","prefixes":["acme-*"]}`),
		}, queue.AnyRevision); err != nil {
			t.Fatal(err)
		}
		targets := deliver.Options{Logger: slog.New(slog.DiscardHandler)}
		owners := auth.NewOwners(e, nil)
		f := app.PublishFlags{PublishNATS: server.URL(), PublishPrefix: "jobs.{app}"}
		disconnect, err := f.Connect(&targets, owners)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = disconnect() }()
		router := deliver.New(targets)
		d, err := app.NewDrainer(e, app.DrainerOptions{Handler: router, Owners: owners})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		end := make(chan error, 1)
		go func() { end <- d.Run(ctx) }()
		for name, want := range map[string]string{"acme-mail": "jobs.acme.sent", "other": "jobs.-.sent"} {
			if _, err := e.Put(t.Context(), queue.Spec{
				Name: name, Rate: leaky.Unlimited, Deliver: []byte(`{"nats":{"subject":"sent","mode":"core"}}`),
			}, 0); err != nil {
				t.Fatal(err)
			}
			if _, err := e.Append(t.Context(), []queue.Job{{Queue: name, ID: "a", Payload: []byte("{}")}}); err != nil {
				t.Fatal(err)
			}
			if m, err := heard.NextMsg(20 * time.Second); err != nil || m.Subject != want {
				t.Errorf("%+v, %v; want %s", m, err, want)
			}
		}
		stop()
		if err := <-end; err != nil {
			t.Error(err)
		}
		if err := router.Close(); err != nil {
			t.Error(err)
		}
	})
}
