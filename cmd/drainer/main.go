// Command drainer delivers jobs at the rate of their queue.
package main

import (
	"os"

	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/app/asynq"
)

func main() { os.Exit(app.Main("drainer", app.RunDrainer(asynq.Open))) }
