package deploytest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// startNATS starts the services' cluster in this process, with nats.conf but for ports and directories, which are its
// own, and returns the servers by the names of their services.
func startNATS(t *testing.T, deploy files) map[string]*server.Server {
	t.Helper()
	names := []string{"nats-1", "nats-2", "nats-3"}
	host := ownLoopback()
	ports := freePorts(t, host, len(names))
	var routes []*url.URL
	for _, port := range ports {
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprint(host, ":", port)})
	}
	cluster := map[string]*server.Server{}
	for i, name := range names {
		o, err := natsOptions(t, deploy["nats.conf"], name)
		if err != nil {
			t.Fatal(err)
		}
		o.Host, o.Port, o.NoSigs = "127.0.0.1", server.RANDOM_PORT, true
		o.HTTPHost, o.HTTPPort = "127.0.0.1", server.RANDOM_PORT
		o.Cluster.Host, o.Cluster.Port, o.Routes, o.StoreDir = host, ports[i], routes, t.TempDir()
		s, err := server.NewServer(o)
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		cluster[name] = s
	}
	for name, s := range cluster {
		poll(t, name+" is healthy", func() error {
			if !s.ReadyForConnections(time.Second) {
				return fmt.Errorf("it takes no connections")
			}
			_, err := get(t, fmt.Sprintf("http://%s/healthz?js-server-only=true", s.MonitorAddr()))
			return err
		})
	}
	return cluster
}

// ownLoopback is an address of loopback that no other process listens on, where there is more than one: a port that is
// free there stays free until a server has it.
func ownLoopback() string {
	if pid := os.Getpid(); runtime.GOOS == "linux" {
		return fmt.Sprintf("127.%d.%d.%d", 1+pid>>16&127, pid>>8&255, pid&255)
	}
	return "127.0.0.1"
}

// freePorts are ports of an address that nobody has at this moment.
func freePorts(t *testing.T, host string, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", host+":0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		ports = append(ports, ln.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// nats.conf makes a cluster that keeps what it was given when any one of its servers dies.
func TestNATSCluster(t *testing.T) {
	cluster := startNATS(t, load(t))
	var urls []string
	for _, s := range cluster {
		urls = append(urls, s.ClientURL())
	}
	nc, err := nats.Connect(strings.Join(urls, ","))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	put := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := js.Publish(ctx, "kept.1", []byte("a job"))
		return err
	}
	poll(t, "a stream of three replicas", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
			Name: "kept", Subjects: []string{"kept.>"}, Replicas: 3, MaxBytes: 1 << 30,
		})
		return err
	})
	poll(t, "three servers keep a job", put)
	cluster["nats-2"].Shutdown()
	poll(t, "two servers keep a job", put)
}
