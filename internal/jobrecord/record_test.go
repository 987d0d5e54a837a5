package jobrecord

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"pgregory.net/rapid"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
)

var visibleASCII = &unicode.RangeTable{R16: []unicode.Range16{{Lo: '!', Hi: '~', Stride: 1}}}

// anyJob draws a normalized, valid job.
func anyJob(t *rapid.T) queue.Job {
	visible := rapid.StringOfN(rapid.RuneFrom(nil, visibleASCII), 1, 40, -1)
	j := queue.Job{
		Queue:       "q",
		ID:          visible.Filter(func(id string) bool { return names.ValidateID(id) == nil }).Draw(t, "id"),
		Payload:     rapid.SliceOf(rapid.Byte()).Draw(t, "payload"),
		ContentType: rapid.OneOf(rapid.Just(""), rapid.Just(queue.DefaultContentType), visible).Draw(t, "content type"),
		Cost:        rapid.Int64Range(0, leaky.MaxCost).Draw(t, "cost"),
	}
	if rapid.Bool().Draw(t, "expires") {
		// not near the years' ends: in some zone it is another year
		j.ExpiresAt = time.UnixMicro(rapid.Int64Range(946771200e6, 7258031999e6).Draw(t, "expires at"))
	}
	if rapid.Bool().Draw(t, "not before") {
		last := int64(7258031999e6)
		if !j.ExpiresAt.IsZero() {
			last = j.ExpiresAt.UnixMicro() - 1
		}
		j.NotBefore = time.UnixMicro(rapid.Int64Range(946771199e6, last).Draw(t, "not before"))
	}
	lanes := rapid.OneOf(rapid.Just(""), rapid.StringN(0, 20, -1), rapid.StringN(0, -1, queue.MaxLaneBytes))
	j.Lane = lanes.Draw(t, "lane")
	j.Priority = rapid.IntRange(0, queue.MaxPriority).Draw(t, "priority")
	j.Batch = rapid.SampledFrom([]string{"", "b", "Frühling", strings.Repeat("x", queue.MaxBatchBytes)}).Draw(t, "batch")
	j.Costs = rapid.SampledFrom([]map[string]int64{
		nil, {"tokens": 0}, {"tokens": 1800, "a": queue.MaxUnitCost}, {strings.Repeat("u", queue.MaxUnitBytes): 1},
	}).Draw(t, "costs")
	for range rapid.IntRange(0, 5).Draw(t, "headers") {
		if j.Headers == nil {
			j.Headers = map[string]string{}
		}
		j.Headers["X-"+rapid.StringMatching(`[A-Za-z0-9-]{0,20}`).Draw(t, "name")] = rapid.OneOf(
			rapid.Just(""), visible,
		).Draw(t, "value")
	}
	j.Normalize()
	if err := j.Validate(); err != nil {
		t.Fatalf("not a valid job: %v", err)
	}
	return j
}

func TestRecordRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := anyJob(t)
		var back queue.Job
		if err := Unpack(Pack(&j), &back); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(back.Payload, j.Payload) || back.ContentType != j.ContentType ||
			!maps.Equal(back.Headers, j.Headers) || back.Cost != j.Cost ||
			!back.ExpiresAt.Equal(j.ExpiresAt) || !back.NotBefore.Equal(j.NotBefore) || back.Lane != j.Lane ||
			back.Priority != j.Priority || back.Batch != j.Batch || !maps.Equal(back.Costs, j.Costs) {
			t.Fatalf("%+v came back as %+v", j, back)
		}
		other := j
		other.Batch = rapid.SampledFrom([]string{"", "march", j.Batch}).Draw(t, "another batch")
		if got := WithBatch(Pack(&j), other.Batch); !bytes.Equal(got, Pack(&other)) {
			t.Fatalf("in batch %q it is %x, want %x", other.Batch, got, Pack(&other))
		}
		other = j
		other.Costs = rapid.SampledFrom([]map[string]int64{nil, {"images": 2}, j.Costs}).Draw(t, "other costs")
		if got := WithCosts(Pack(&j), other.Costs); !bytes.Equal(got, Pack(&other)) {
			t.Fatalf("with costs %v it is %x, want %x", other.Costs, got, Pack(&other))
		}
		h, err := UnpackHead(Pack(&j))
		if want := (Head{
			j.Fingerprint(), j.Cost, back.ExpiresAt, back.NotBefore, queue.DigestLane(j.Lane), j.Priority, j.Batch,
			string(packCosts(j.Costs)[min(2, len(packCosts(j.Costs))):]),
		}); err != nil ||

			h != want {
			t.Fatalf("its head is %+v, %v; want %+v", h, err, want)
		}
		if back.Fingerprint() != j.Fingerprint() {
			t.Fatal("another fingerprint")
		}
	})
}

func TestRecordAppends(t *testing.T) {
	j := queue.Job{Queue: "q", ID: "a", Payload: []byte("payload")}
	j.Normalize()
	before := []byte("before")
	b := Append(before[:3], &j)
	if !bytes.Equal(b, append([]byte("bef"), Pack(&j)...)) || string(before) != "before" {
		t.Errorf("got %q, and %q before it", b, before)
	}
}

// Scripts read the first ten bytes at fixed places.
func TestRecordHead(t *testing.T) {
	j := queue.Job{Queue: "q", ID: "a", Payload: []byte("x"), Cost: 0x0102}
	j.Normalize()
	b := Pack(&j)
	other := j
	other.Cost = 1
	if b[CostAt] != 1 || b[CostAt+1] != 2 {
		t.Errorf("cost is not at %d: % x", CostAt, b)
	}
	if bytes.Equal(b[FingerprintAt:8], Pack(&other)[FingerprintAt:8]) {
		t.Error("another cost has the same fingerprint")
	}
}

// A truncated record is an error, or a record with a shorter payload; it is never read beyond its end.
func TestRecordCutShort(t *testing.T) {
	j := queue.Job{
		Queue: "q", ID: "a", ContentType: "text/plain", Headers: map[string]string{"A": "b", "C": "d"},
		Payload: []byte("0123456789"),
		Lane:    "lane", Priority: 9, Batch: "batch", Costs: map[string]int64{"tokens": 7},
		NotBefore: time.UnixMicro(1e15), ExpiresAt: time.UnixMicro(2e15),
	}
	j.Normalize()
	whole := Pack(&j)
	for n := range whole {
		var back queue.Job
		err := Unpack(whole[:n:n], &back)
		switch {
		case err != nil && !errors.Is(err, queue.ErrCorrupt):
			t.Errorf("cut at %d: %v", n, err)
		case err == nil && n < len(whole)-len(j.Payload):
			t.Errorf("cut at %d of %d: read as %+v", n, len(whole), back)
		}
	}
}

func TestFingerprint(t *testing.T) {
	base := queue.Job{Queue: "q", ID: "a", Payload: []byte("payload")}
	base.Normalize()
	same := map[string]func(*queue.Job){
		"queue":      func(j *queue.Job) { j.Queue = "r" },
		"id":         func(j *queue.Job) { j.ID = "b" },
		"headers":    func(j *queue.Job) { j.Headers = map[string]string{"a": "b"} },
		"priority":   func(j *queue.Job) { j.Priority = 9 },
		"batch":      func(j *queue.Job) { j.Batch = "b" },
		"costs":      func(j *queue.Job) { j.Costs = map[string]int64{"tokens": 1} },
		"not before": func(j *queue.Job) { j.NotBefore = time.UnixMicro(1e15) },
		"expires at": func(j *queue.Job) { j.ExpiresAt = time.UnixMicro(1e15) },
	}
	another := map[string]func(*queue.Job){
		"payload":           func(j *queue.Job) { j.Payload = []byte("payloae") },
		"no payload":        func(j *queue.Job) { j.Payload = nil },
		"content type":      func(j *queue.Job) { j.ContentType = "text/plain" },
		"cost":              func(j *queue.Job) { j.Cost = 2 },
		"type into payload": func(j *queue.Job) { j.ContentType, j.Payload = "a", []byte("bpayload") },
		"lane":              func(j *queue.Job) { j.Lane = "a" },
		"another lane":      func(j *queue.Job) { j.Lane = "b" },
		"lane in payload": func(j *queue.Job) {
			digest := queue.DigestLane("a")
			j.Payload = append(
				digest[:15:15], j.Payload...,
			)
		},
	}
	for what, change := range same {
		j := base
		change(&j)
		if j.Fingerprint() != base.Fingerprint() {
			t.Errorf("%s changes the fingerprint", what)
		}
	}
	seen := map[uint64]string{base.Fingerprint(): "none"}
	for what, change := range another {
		j := base
		change(&j)
		if other, ok := seen[j.Fingerprint()]; ok {
			t.Errorf("%s has the fingerprint of %s", what, other)
		}
		seen[j.Fingerprint()] = what
	}
}

func FuzzUnpackRecord(f *testing.F) {
	j := queue.Job{ContentType: "text/plain", Headers: map[string]string{"A": "b"}, Payload: []byte("x"), Cost: 3}
	f.Add(Pack(&j))
	f.Add(Pack(&queue.Job{Payload: []byte("{}"), ContentType: queue.DefaultContentType, Cost: 1}))
	all := Pack(&queue.Job{
		ContentType: "text/plain", Lane: "lane", Priority: 9, Batch: "b", NotBefore: time.UnixMicro(1e15),
		ExpiresAt: time.UnixMicro(2e15), Cost: 1, Payload: []byte("x"),
	})
	f.Add(all)
	for flags := range byte(allFlags + 1) { // the same bytes read in every way
		f.Add(append(append(slices.Clone(all[:flagsAt]), flags), all[recordBody:]...))
	}
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xff}, 40))
	f.Fuzz(func(t *testing.T, b []byte) {
		var j queue.Job
		if err := Unpack(b, &j); err != nil {
			if !errors.Is(err, queue.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if len(j.Headers) > queue.MaxHeaders || len(j.ContentType) > queue.MaxContentTypeBytes || len(j.Payload) > len(b) ||
			len(j.Lane) > queue.MaxLaneBytes || j.Priority < 0 ||
			j.Priority > queue.MaxPriority {
			t.Fatalf("read %+v", j)
		}
		if _, err := UnpackHead(b); err != nil {
			t.Fatalf("a record that can be read has a head that cannot: %v", err)
		}
		var again queue.Job
		if err := Unpack(Pack(&j), &again); err != nil || !bytes.Equal(again.Payload, j.Payload) ||
			!maps.Equal(again.Headers, j.Headers) ||
			again.Lane != j.Lane || again.Batch != j.Batch || again.Priority != j.Priority ||
			!again.NotBefore.Equal(j.NotBefore) ||
			!again.ExpiresAt.Equal(j.ExpiresAt) {
			t.Fatalf("%+v came back as %+v, %v", j, again, err)
		}
	})
}
