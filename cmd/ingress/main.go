// Command ingress accepts jobs over HTTP.
package main

import (
	"os"

	"github.com/penstock/penstock/internal/app"
)

func main() { os.Exit(app.Main("ingress", app.RunIngress)) }
