package deferred

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/penstock/penstock/internal/test/await"
)

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Prefix: "a.b"}, "prefix"},
		{Options{Prefix: "A"}, "prefix"},
		{Options{Prefix: ">"}, "prefix"},
		{Options{Prefix: strings.Repeat("a", 33)}, "prefix"},
		{Options{Replicas: -1}, "replicas -1"},
		{Options{Replicas: 6}, "replicas 6"},
		{Options{MaxBytes: -1}, "max bytes -1"},
		{Options{Patience: -1}, "patience -1ns"},
		{Options{MaxBytes: 1<<20 - 1}, "max bytes"},
		{Options{}, ""},
		{Options{Prefix: strings.Repeat("a", 32), Replicas: 5, MaxBytes: 1 << 20}, ""},
	} {
		_, err := c.o.withDefaults()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v, want %q", c.o, err, c.want)
		}
	}
}

func configs(t *testing.T, s *Stream) (jobs, dead jetstream.StreamConfig) {
	t.Helper()
	for name, c := range map[string]*jetstream.StreamConfig{s.name: &jobs, s.deadName: &dead} {
		stream, err := s.js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		*c = stream.CachedInfo().Config
	}
	return jobs, dead
}

// The streams are created as configured, and stay as they are when opened again with other options.
func TestOpen(t *testing.T) {
	nc := connect(t, startNATS(t).URL())
	s := openStream(t, nc, Options{MaxBytes: 1 << 30})
	jobs, dead := configs(t, s)
	if jobs.Name != "PENSTOCK_DEFERRED" || !reflect.DeepEqual(jobs.Subjects, []string{"penstock.deferred.>"}) ||
		jobs.Storage != jetstream.FileStorage ||
		jobs.Retention != jetstream.LimitsPolicy || jobs.Discard != jetstream.DiscardNew || jobs.MaxAge != 0 ||
		jobs.MaxBytes != 1<<30 || !jobs.AllowDirect ||
		jobs.Duplicates != 2*time.Minute || jobs.AllowRollup || jobs.DenyDelete || jobs.DenyPurge {
		t.Errorf("%+v", jobs)
	}
	if dead.Name != "PENSTOCK_DEAD" || !reflect.DeepEqual(dead.Subjects, []string{"penstock.dead.>"}) ||
		dead.MaxBytes != (1<<30)/10 {
		t.Errorf("%+v", dead)
	}
	again := openStream(t, nc, Options{MaxBytes: 2 << 30})
	jobs2, dead2 := configs(t, again)
	if !reflect.DeepEqual(jobs, jobs2) || !reflect.DeepEqual(dead, dead2) {
		t.Errorf("%+v\n%+v", jobs2, dead2)
	}
	if other := openStream(t, nc, Options{Prefix: "b-1_"}); other.name != "B-1__DEFERRED" {
		t.Error(other.name)
	}
	if st := s.Status(); !st.Connected || st.Deferred != "PENSTOCK_DEFERRED" || st.Dead != "PENSTOCK_DEAD" ||
		st.Err != nil {
		t.Errorf("%+v", st)
	}
}

func TestOpenAtOnce(t *testing.T) {
	url := startNATS(t).URL()
	var all sync.WaitGroup
	for i := range 8 {
		nc := connect(t, url)
		all.Go(func() {
			if _, err := open(t.Context(), nc, Options{MaxBytes: int64(1+i%2) << 30}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// An existing stream with other settings is refused with the differences and left as it is; one with larger limits is
// used.
func TestOpenExisting(t *testing.T) {
	nc := connect(t, startNATS(t).URL())
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(*jetstream.StreamConfig)
		want   []string
	}{
		{"ours", func(*jetstream.StreamConfig) {}, nil},
		{"more bytes", func(c *jetstream.StreamConfig) { c.MaxBytes = 16 << 20 }, nil},
		{"fewer bytes", func(c *jetstream.StreamConfig) { c.MaxBytes = 2 << 20 }, nil},
		{"bounded in messages", func(c *jetstream.StreamConfig) { c.MaxMsgs = 1000 }, nil},
		{"compressed", func(c *jetstream.StreamConfig) { c.Compression = jetstream.S2Compression }, nil},
		{
			"another subject", func(c *jetstream.StreamConfig) { c.Subjects = []string{"penstock.deferred.a"} },
			[]string{"subjects is [penstock.deferred.a], needs [penstock.deferred.>]"},
		},
		{
			"one more subject", func(c *jetstream.StreamConfig) { c.Subjects = append(c.Subjects, "other") },
			[]string{"subjects"},
		},
		{
			"memory", func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
			[]string{"storage is Memory, needs File"},
		},
		{
			"work queue", func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy },
			[]string{"retention is WorkQueue, needs Limits"},
		},
		{"interest", func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy }, []string{"retention"}},
		{
			"discard old", func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld },
			[]string{"discard is DiscardOld, needs DiscardNew"},
		},
		{"max age", func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }, []string{"max_age is 1h0m0s, needs none"}},
		{
			"per subject", func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 10 },
			[]string{"max_msgs_per_subject is 10, needs none"},
		},
		{
			"message size", func(c *jetstream.StreamConfig) { c.MaxMsgSize = 1000 },
			[]string{"max_msg_size is 1000, needs none, or"},
		},
		{"message size enough", func(c *jetstream.StreamConfig) { c.MaxMsgSize = 4 << 20 }, nil},
		{
			"no direct", func(c *jetstream.StreamConfig) { c.AllowDirect = false },
			[]string{"allow_direct is false, needs true"},
		},
		{"no ack", func(c *jetstream.StreamConfig) { c.NoAck = true }, []string{"no_ack"}},
		{"deny purge", func(c *jetstream.StreamConfig) { c.DenyPurge = true }, []string{"deny_purge"}},
		{"transform", func(c *jetstream.StreamConfig) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: ">", Destination: "x.>"}
		}, []string{"subject_transform"}},
		{
			"counter", func(c *jetstream.StreamConfig) { c.AllowMsgCounter = true; c.Discard = jetstream.DiscardOld },
			[]string{"allow_msg_counter", "discard"},
		},
		{"markers", func(c *jetstream.StreamConfig) {
			c.SubjectDeleteMarkerTTL = time.Minute
			c.AllowRollup = true
			c.AllowMsgTTL = true
		}, []string{"subject_delete_marker_ttl"}},
		{
			"two", func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour; c.Storage = jetstream.MemoryStorage },
			[]string{"max_age", "storage"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, err := Options{MaxBytes: 8 << 20}.withDefaults()
			if err != nil {
				t.Fatal(err)
			}
			config, dead := settings(o)
			c.change(&config)
			// The files of the one before may be about to go.
			await.Until(t, "made", func() bool {
				_, err = js.CreateStream(t.Context(), config)
				return err == nil || !strings.Contains(err.Error(), "creating store")
			})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = js.DeleteStream(context.Background(), dead.Name)
				if err := js.DeleteStream(context.Background(), config.Name); err != nil {
					t.Error(err)
				}
			}()
			before, err := js.Stream(t.Context(), config.Name)
			if err != nil {
				t.Fatal(err)
			}
			_, err = open(t.Context(), nc, o)
			if (err == nil) != (c.want == nil) || err != nil && !errors.Is(err, ErrUnfit) {
				t.Fatal(err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "PENSTOCK_DEFERRED") {
					t.Errorf("%v, want %q", err, want)
				}
			}
			after, err := js.Stream(t.Context(), config.Name)
			if err != nil || !reflect.DeepEqual(after.CachedInfo().Config, before.CachedInfo().Config) {
				t.Errorf("changed: %v %+v", err, after.CachedInfo().Config)
			}
		})
	}
}

// Settings that this server cannot create, as the list of differences reports them.
func TestDifferences(t *testing.T) {
	o, err := Options{Replicas: 3}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	wants, _ := settings(o)
	for name, change := range map[string]func(*jetstream.StreamConfig){
		"num_replicas is 1, needs 3": func(c *jetstream.StreamConfig) { c.Replicas = 1 },
		"sealed":                     func(c *jetstream.StreamConfig) { c.Sealed = true },
		"mirror":                     func(c *jetstream.StreamConfig) { c.Mirror = &jetstream.StreamSource{} },
		"persist_mode":               func(c *jetstream.StreamConfig) { c.PersistMode = jetstream.AsyncPersistMode },
		"":                           func(c *jetstream.StreamConfig) { c.Replicas = 5 },
	} {
		has := wants
		change(&has)
		d := strings.Join(differences(has, wants, 1<<20), "; ")
		if name == "" && d != "" || !strings.Contains(d, name) {
			t.Errorf("%q, want %q", d, name)
		}
	}
}

// An unfit NATS is reported.
func TestOpenUnfit(t *testing.T) {
	opts := &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true}
	plain, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	plain.Start()
	defer plain.Shutdown()
	if _, err := open(t.Context(), connect(t, plain.ClientURL()), Options{}); !errors.Is(err, ErrUnfit) ||
		!strings.Contains(err.Error(), "no JetStream") {
		t.Error(err)
	}

	nc := connect(t, startNATS(t).URL())
	if _, err := open(t.Context(), nc, Options{Replicas: 3}); !errors.Is(err, ErrUnfit) ||
		!strings.Contains(err.Error(), "num_replicas 3") {
		t.Error(err)
	}
	nc.Close()
	if _, err := open(t.Context(), nc, Options{}); !errors.Is(err, ErrUnfit) {
		t.Errorf("on a closed connection: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := open(ctx, connect(t, startNATS(t).URL()), Options{}); !errors.Is(err, context.Canceled) ||
		errors.Is(err, ErrUnfit) {
		t.Error(err)
	}
}
