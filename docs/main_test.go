package docs

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/app/asynq"
	"github.com/penstock/penstock/internal/cli"
)

// asProgram is the variable that makes the test binary run as one of the programs.
const asProgram = "PENSTOCK_DOCS_PROGRAM"

func TestMain(m *testing.M) {
	switch os.Getenv(asProgram) {
	case "ingress":
		os.Exit(app.Main("ingress", app.RunIngress))
	case "drainer":
		os.Exit(app.Main("drainer", app.RunDrainer(asynq.Open)))
	case "penstock":
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		code := cli.Run(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
		stop()
		os.Exit(int(code))
	}
	os.Exit(m.Run())
}
