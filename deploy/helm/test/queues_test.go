package test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/config"
)

// queueFaults checks the file of queues as an ingress does at its start: with the addresses and the .allow files that
// the pod has. What delivers must also have the secrets themselves.
func queueFaults(t *testing.T, r *release) (found faults) {
	text := ""
	for _, p := range r.pods() {
		args := p.spec.Containers[0].Args
		file := option(args, "--config")
		if file == "" {
			continue
		}
		root := mount(t, &p, r)
		var allow []string
		if given := option(args, "--egress-allow"); given != "" {
			allow = strings.Split(given, ",")
		}
		guard, err := egress.New(allow...)
		if err != nil {
			t.Fatal(err)
		}
		source := secrets.Source{}
		if dir := option(args, "--secrets-dir"); dir != "" {
			source.Dir = filepath.Join(root, dir)
		}
		if _, err := config.Load(filepath.Join(root, file), app.ValidTarget(guard, source)); err != nil {
			found.add("%s: %v", p.owner, err)
		}
		b, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		text = string(b)
	}
	for _, p := range r.pods() {
		if c := p.component(); c != "drainer" && c != "up" {
			continue
		}
		dir := filepath.Join(mount(t, &p, r), option(p.spec.Containers[0].Args, "--secrets-dir"))
		for _, name := range secrets.Names(text) {
			if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || len(b) == 0 {
				found.add("%s: it cannot read the secret %s: %v", p.owner, name, err)
			}
		}
	}
	return found
}
