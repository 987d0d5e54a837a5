package queue

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/penstock/penstock/leaky"
)

// anyJob draws a normalized, valid job.
func anyJob(t *rapid.T) Job {
	visible := rapid.StringOfN(rapid.RuneFrom(nil, visibleASCII), 1, 40, -1)
	j := Job{
		Queue:       "q",
		ID:          visible.Filter(func(id string) bool { return ValidateID(id) == nil }).Draw(t, "id"),
		Payload:     rapid.SliceOf(rapid.Byte()).Draw(t, "payload"),
		ContentType: rapid.OneOf(rapid.Just(""), rapid.Just(DefaultContentType), visible).Draw(t, "content type"),
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
	j.Lane = rapid.OneOf(rapid.Just(""), rapid.StringN(0, 20, -1), rapid.StringN(0, -1, MaxLaneBytes)).Draw(t, "lane")
	j.Priority = rapid.IntRange(0, MaxPriority).Draw(t, "priority")
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
		var back Job
		if err := UnpackRecord(PackRecord(&j), &back); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(back.Payload, j.Payload) || back.ContentType != j.ContentType ||
			!maps.Equal(back.Headers, j.Headers) || back.Cost != j.Cost ||
			!back.ExpiresAt.Equal(j.ExpiresAt) || !back.NotBefore.Equal(j.NotBefore) || back.Lane != j.Lane ||
			back.Priority != j.Priority {
			t.Fatalf("%+v came back as %+v", j, back)
		}
		h, err := UnpackHead(PackRecord(&j))
		if want := (Head{
			j.Fingerprint(), j.Cost, back.ExpiresAt, back.NotBefore, DigestLane(j.Lane), j.Priority,
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
	j := Job{Queue: "q", ID: "a", Payload: []byte("payload")}
	j.Normalize()
	before := []byte("before")
	b := AppendRecord(before[:3], &j)
	if !bytes.Equal(b, append([]byte("bef"), PackRecord(&j)...)) || string(before) != "before" {
		t.Errorf("got %q, and %q before it", b, before)
	}
}

// The first ten bytes are read by scripts, at fixed places.
func TestRecordHead(t *testing.T) {
	j := Job{Queue: "q", ID: "a", Payload: []byte("x"), Cost: 0x0102}
	j.Normalize()
	b := PackRecord(&j)
	other := j
	other.Cost = 1
	if b[RecordCost] != 1 || b[RecordCost+1] != 2 {
		t.Errorf("cost is not at %d: % x", RecordCost, b)
	}
	if bytes.Equal(b[RecordFingerprint:8], PackRecord(&other)[RecordFingerprint:8]) {
		t.Error("another cost has the same fingerprint")
	}
}

// A record cut short is an error, or a record with less payload; it is never
// read beyond its end.
func TestRecordCutShort(t *testing.T) {
	j := Job{
		Queue: "q", ID: "a", ContentType: "text/plain", Headers: map[string]string{"A": "b", "C": "d"},
		Payload: []byte("0123456789"),
		Lane:    "lane", Priority: 9, NotBefore: time.UnixMicro(1e15), ExpiresAt: time.UnixMicro(2e15),
	}
	j.Normalize()
	whole := PackRecord(&j)
	for n := range whole {
		var back Job
		err := UnpackRecord(whole[:n:n], &back)
		switch {
		case err != nil && !errors.Is(err, ErrCorrupt):
			t.Errorf("cut at %d: %v", n, err)
		case err == nil && n < len(whole)-len(j.Payload):
			t.Errorf("cut at %d of %d: read as %+v", n, len(whole), back)
		}
	}
}

func TestFingerprint(t *testing.T) {
	base := Job{Queue: "q", ID: "a", Payload: []byte("payload")}
	base.Normalize()
	same := map[string]func(*Job){
		"queue":      func(j *Job) { j.Queue = "r" },
		"id":         func(j *Job) { j.ID = "b" },
		"headers":    func(j *Job) { j.Headers = map[string]string{"a": "b"} },
		"priority":   func(j *Job) { j.Priority = 9 },
		"not before": func(j *Job) { j.NotBefore = time.UnixMicro(1e15) },
		"expires at": func(j *Job) { j.ExpiresAt = time.UnixMicro(1e15) },
	}
	another := map[string]func(*Job){
		"payload":           func(j *Job) { j.Payload = []byte("payloae") },
		"no payload":        func(j *Job) { j.Payload = nil },
		"content type":      func(j *Job) { j.ContentType = "text/plain" },
		"cost":              func(j *Job) { j.Cost = 2 },
		"type into payload": func(j *Job) { j.ContentType, j.Payload = "a", []byte("bpayload") },
		"lane":              func(j *Job) { j.Lane = "a" },
		"another lane":      func(j *Job) { j.Lane = "b" },
		"lane in payload": func(j *Job) {
			digest := DigestLane("a")
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
	j := Job{ContentType: "text/plain", Headers: map[string]string{"A": "b"}, Payload: []byte("x"), Cost: 3}
	f.Add(PackRecord(&j))
	f.Add(PackRecord(&Job{Payload: []byte("{}"), ContentType: DefaultContentType, Cost: 1}))
	all := PackRecord(&Job{
		ContentType: "text/plain", Lane: "lane", Priority: 9, NotBefore: time.UnixMicro(1e15),
		ExpiresAt: time.UnixMicro(2e15), Cost: 1, Payload: []byte("x"),
	})
	f.Add(all)
	for flags := range byte(allFlags + 1) { // the same bytes read in every way
		f.Add(append(append(slices.Clone(all[:RecordFlags]), flags), all[recordBody:]...))
	}
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xff}, 40))
	f.Fuzz(func(t *testing.T, b []byte) {
		var j Job
		if err := UnpackRecord(b, &j); err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if len(j.Headers) > MaxHeaders || len(j.ContentType) > MaxContentTypeBytes || len(j.Payload) > len(b) ||
			len(j.Lane) > MaxLaneBytes || j.Priority < 0 ||
			j.Priority > MaxPriority {
			t.Fatalf("read %+v", j)
		}
		if _, err := UnpackHead(b); err != nil {
			t.Fatalf("a record that can be read has a head that cannot: %v", err)
		}
		var again Job
		if err := UnpackRecord(PackRecord(&j), &again); err != nil || !bytes.Equal(again.Payload, j.Payload) ||
			!maps.Equal(again.Headers, j.Headers) ||
			again.Lane != j.Lane || again.Priority != j.Priority || !again.NotBefore.Equal(j.NotBefore) ||
			!again.ExpiresAt.Equal(j.ExpiresAt) {
			t.Fatalf("%+v came back as %+v, %v", j, again, err)
		}
	})
}
