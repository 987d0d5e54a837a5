package cli

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/penstock/penstock/internal/app/natsserver"
	"github.com/penstock/penstock/internal/cli/doctor"
)

func TestDoctorOverflow(t *testing.T) {
	url := ingress(t)
	server, err := natsserver.Start(t.Context(), natsserver.Options{
		Dir: t.TempDir(), Listen: "127.0.0.1:0", LazySync: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	t.Cleanup(func() {
		if !stopped {
			server.Stop()
		}
	})
	at := server.URL()
	args := []string{"-s", url, "--nats", at, "--nats-max-bytes", "1GiB"}
	found := examined(t, args...)
	finds(t, found, "overflow", doctor.Warning, "there is no stream PENSTOCK_DEFERRED")
	conn, err := nats.Connect(at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Stream(t.Context(), "PENSTOCK_DEFERRED"); err == nil {
		t.Error("to look made a stream")
	}
	// One that would lose jobs.
	made := jetstream.StreamConfig{
		Name: "PENSTOCK_DEFERRED", Subjects: []string{"penstock.deferred.>"}, MaxBytes: 1 << 20, MaxAge: time.Hour,
	}
	if _, err := js.CreateStream(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	found = examined(t, args...)
	if do := finds(t, found, "overflow", doctor.Wrong, "max_age is 1h0m0s"); do != "nats stream edit PENSTOCK_DEFERRED" {
		t.Errorf("what to do: %s", do)
	}
	finds(t, found, "clock", doctor.OK, "2 other clocks")
	// And one that is nearly full.
	if _, err := js.Publish(t.Context(), "penstock.deferred.a", make([]byte, 900<<10)); err != nil {
		t.Fatal(err)
	}
	finds(t, examined(t, args...), "overflow", doctor.Warning, "% full")

	server.Stop()
	stopped = true
	finds(t, examined(t, args...), "overflow", doctor.Wrong, "overflow")
}
