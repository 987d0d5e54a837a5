package deferred

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
)

var instant = time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)

func itemFor(j queue.Job, ticket queue.Ticket) Item {
	j.Normalize()
	return Item{Job: j, Ticket: ticket, At: instant}
}

func samples() []Item {
	full := queue.Job{
		Queue: "q", ID: strings.Repeat("i", names.MaxIDBytes), Payload: bytes.Repeat([]byte{0, 255}, 20),
		ContentType: "text/plain; charset=utf-8",
		Headers:     map[string]string{"X-A": "1", "x-b": ""}, Cost: 1000, Lane: strings.Repeat("é", queue.MaxLaneBytes/2),
		Priority:  queue.MaxPriority,
		NotBefore: time.Date(2199, 12, 30, 0, 0, 0, 2000, time.UTC),
		ExpiresAt: time.Date(2199, 12, 31, 0, 0, 0, 1000, time.UTC),
	}
	return []Item{
		itemFor(queue.Job{Queue: "q", ID: "a"}, ""),
		itemFor(queue.Job{Queue: "q", ID: "b", Payload: []byte("{}")}, "7.1"),
		itemFor(queue.Job{Queue: "q", ID: "c", Lane: "example.com"}, "7.2"),
		itemFor(queue.Job{Queue: "q", ID: "d", Priority: 1, Payload: []byte("1")}, "7.3"),
		itemFor(queue.Job{Queue: "q", ID: "e", NotBefore: instant.Add(time.Hour)}, "7.4"),
		itemFor(full, queue.Ticket(strings.Repeat("t", queue.MaxTicketBytes))),
	}
}

func packAll(items []Item) []byte {
	var body []byte
	for i := range items {
		body = append(body, encode(&items[i])...)
	}
	return body
}

func TestPack(t *testing.T) {
	items := samples()
	got, err := decode("q", packAll(items))
	if err != nil {
		t.Fatal(err)
	}
	for i := range items {
		if len(items[i].Payload) == 0 {
			items[i].Payload, got[i].Payload = nil, nil
		}
	}
	if !reflect.DeepEqual(got, items) {
		t.Errorf("got %+v\nwant %+v", got, items)
	}
}

// A job's overflow setting was applied and is not stored.
func TestPackLeavesOverflowOut(t *testing.T) {
	i := itemFor(queue.Job{Queue: "q", ID: "a", Overflow: queue.Defer}, "")
	got, err := decode("q", encode(&i))
	if err != nil || got[0].Overflow != "" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestUnpackRefuses(t *testing.T) {
	good := packAll(samples())
	one := itemFor(queue.Job{Queue: "q", ID: "a", Payload: []byte("p")}, "7.1")
	packed := encode(&one)
	change := func(at int, to ...byte) []byte {
		b := bytes.Clone(packed)
		return append(b[:at], append(to, b[at+1:]...)...)
	}
	early := one
	early.At = time.UnixMicro(0)
	late := one
	late.At = time.Date(2200, 1, 1, 0, 0, 0, 1000, time.UTC)
	costly := one
	costly.Cost = 65535
	for name, body := range map[string][]byte{
		"nothing":         nil,
		"JSON":            []byte(`{"id": "a"}`),
		"behind":          append(bytes.Clone(good), 0),
		"no id":           change(0, 0),
		"id not ASCII":    change(1, 0xff),
		"id longer":       change(0, 0xff, 0x01),
		"ticket blank":    change(3, ' '),
		"number too long": change(0, 0x81, 0x00),
		"no instant":      encode(&early),
		"late instant":    encode(&late),
		"cost":            encode(&costly),
		"other payload":   change(len(packed)-1, 'q'),
		"too many":        bytes.Repeat(packed, stride+1),
	} {
		if items, err := decode("q", body); !errors.Is(err, errNotOurs) || items != nil {
			t.Errorf("%s: %v, %v", name, items, err)
		}
	}
	for n := range len(packed) {
		if items, err := decode("q", packed[:n]); err == nil || items != nil {
			t.Errorf("cut at %d: %v", n, items)
		}
	}
	if items, err := decode("q", bytes.Repeat(packed, stride)); err != nil || len(items) != stride {
		t.Errorf("%d jobs: %v", len(items), err)
	}
	if _, err := decode("not a queue", packed); err == nil {
		t.Error("a job of no queue")
	}
}

// FuzzUnpack checks that what decodes is valid and encodes to the same bytes.
func FuzzUnpack(f *testing.F) {
	f.Add(packAll(samples()))
	f.Add([]byte{})
	f.Add([]byte{1, 'a', 0, 1, 0})
	f.Fuzz(func(t *testing.T, body []byte) {
		items, err := decode("q", body)
		if err != nil {
			if !errors.Is(err, errNotOurs) || items != nil {
				t.Errorf("%v, %v", items, err)
			}
			return
		}
		if len(items) == 0 || len(items) > stride {
			t.Errorf("%d jobs", len(items))
		}
		for i := range items {
			if err := items[i].Validate(); err != nil {
				t.Error(err)
			}
		}
		again, err := decode("q", packAll(items))
		if err != nil || !reflect.DeepEqual(again, items) {
			t.Errorf("%v\n%+v\n%+v", err, items, again)
		}
	})
}
