// Command middleware limits the requests of each client to an HTTP handler by a rule, which all processes on one store
// share.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/penstock/penstock/admission"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
	"github.com/penstock/penstock/queue/rules"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	engine, err := boltq.Open(ctx, "rules.db", boltq.Options{}) // or redisq.Open(ctx, "redis://...", ...)
	if err != nil {
		return err
	}
	defer engine.Close()
	rule := rules.Rule{
		Name: "api.calls", Algorithm: leaky.AlgorithmTokenBucket, Key: "{header.x-api-key}",
		Bound: rules.Bound{Rate: leaky.PerSecond(5), Burst: 10},
	}
	if _, err := engine.PutRule(ctx, rule, queue.AnyRevision); err != nil {
		return err
	}
	limits := admission.New(engine, admission.Options{})
	over := make(chan error, 1)
	go func() { over <- limits.Run(ctx) }()

	var handler http.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	limit := admission.Middleware(limits, rule.Name, admission.HeaderKey("X-Api-Key"), admission.MiddlewareOptions{})
	handler = limit(handler)
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", cmp.Or(os.Getenv("LISTEN"), "127.0.0.1:8081"))
	if err != nil {
		return err
	}
	fmt.Printf("try: curl -i -H 'X-Api-Key: tenant-7' http://%s/\n", listener.Addr())
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-over
}
