package deploytest

import (
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/penstock/penstock/queue"
)

// natsOptions is what nats-server understands of nats.conf, under a name.
func natsOptions(t *testing.T, text, name string) (*server.Options, error) {
	t.Helper()
	t.Setenv("NATS_NAME", name)
	file := filepath.Join(t.TempDir(), "nats.conf")
	write(t, file, text)
	return server.ProcessConfigFile(file)
}

func natsFaults(t *testing.T, deploy files) (found faults) {
	p, err := readCompose(t, deploy)
	if err != nil {
		found.add("compose.yaml: %v", err)
		return found
	}
	var names []string
	for name := range maps.Keys(p.Services) {
		if strings.HasPrefix(name, "nats-") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		s := p.Services[name]
		if s.Environment["NATS_NAME"] != name {
			found.add("%s is called %q by its environment", name, s.Environment["NATS_NAME"])
		}
		o, err := natsOptions(t, deploy["nats.conf"], name)
		if err != nil {
			found.add("nats.conf: %v", err)
			return found
		}
		if !slices.ContainsFunc(s.Volumes, func(m mount) bool { return m.Target == o.StoreDir }) {
			found.add("%s has no volume at store_dir %s", name, o.StoreDir)
		}
		var peers []string
		for _, route := range o.Routes {
			peers = append(peers, route.Hostname())
			if route.Port() != strconv.Itoa(o.Cluster.Port) {
				found.add("the route %s goes to another port than the cluster's, %d", route, o.Cluster.Port)
			}
		}
		if !slices.Equal(peers, names) {
			found.add("nats.conf has routes to %v, and the services are %v", peers, names)
		}
		if o.ServerName != name || o.Cluster.Name == "" || !o.JetStream || !o.SyncAlways || o.Port != 4222 {
			found.add(
				"nats.conf: server %q, cluster %q, JetStream %t, sync always %t, port %d", o.ServerName, o.Cluster.Name,
				o.JetStream, o.SyncAlways, o.Port,
			)
		}
		if least := int32(queue.MaxPayloadBytes + queue.MaxPayloadBytes/2); o.MaxPayload < least {
			found.add("nats.conf: max_payload %d is below the %d of a greatest job with its headers", o.MaxPayload, least)
		}
		if check := "http://127.0.0.1:" + strconv.Itoa(o.HTTPPort) + "/healthz?js-server-only=true"; s.Healthcheck == nil ||
			!slices.Contains(s.Healthcheck.Test, check) {
			found.add("%s: its health check is not of %s", name, check)
		}
		if bytes := s.Environment["GOMEMLIMIT"]; bytes == "" {
			found.add("%s has no GOMEMLIMIT", name)
		}
		found = append(found, overflowFaults(p, o)...)
	}
	return found
}

// overflowFaults are of what the programs ask of the cluster.
func overflowFaults(p *project, o *server.Options) (found faults) {
	for name, s := range p.Services {
		if !s.ours() {
			continue
		}
		if got := s.Environment["PENSTOCK_NATS_REPLICAS"]; got != strconv.Itoa(len(o.Routes)) {
			found.add("%s asks for %q replicas of %d servers", name, got, len(o.Routes))
		}
	}
	return found
}
