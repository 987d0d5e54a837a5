package deferred

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
)

// Forged headers of stored messages do not deceive: not about the sequence, the end of a read, or an error.
func TestFetchForged(t *testing.T) {
	s := newStream(t)
	subject := s.subjects.of("a")
	for _, h := range []nats.Header{
		{
			"Nats-Sequence": {"99999"}, "Nats-Num-Pending": {"0"}, "Nats-Last-Sequence": {"77"},
			"Nats-Subject": {"penstock.deferred.b"},
		},
		{"Status": {"204"}, "Nats-Num-Pending": {"0"}},
		{"Status": {"503"}},
		{"Status": {"404"}},
		{},
	} {
		if _, err := s.js.PublishMsg(t.Context(), &nats.Msg{Subject: subject, Header: h}); err != nil {
			t.Fatal(err)
		}
	}
	f, err := s.fetch(t.Context(), subject, 1, 4)
	if err != nil || len(f.messages) != 4 || f.last != 4 || f.pending != 1 {
		t.Fatalf("%+v, %v", f, err)
	}
	for i, m := range f.messages {
		if m.seq != uint64(i+1) {
			t.Errorf("%d has sequence %d", i, m.seq)
		}
	}
	if f, err = s.fetch(t.Context(), subject, f.last+1, 4); err != nil || len(f.messages) != 1 || f.pending != 0 {
		t.Errorf("%+v, %v", f, err)
	}
	if f, err = s.fetch(t.Context(), s.subjects.of("none"), 1, 4); err != nil || len(f.messages) != 0 {
		t.Errorf("%+v, %v", f, err)
	}
}

// A reply lost on the way is noticed, and not mistaken for a missing job.
func TestFetchLostReply(t *testing.T) {
	reply := func(seq, before string) *nats.Msg {
		return &nats.Msg{Header: nats.Header{
			"Nats-Sequence": {seq}, "Nats-Last-Sequence": {before}, "Nats-Num-Pending": {"1"},
		}}
	}
	end := func(before string) *nats.Msg {
		return &nats.Msg{Header: nats.Header{"Status": {"204"}, "Nats-Last-Sequence": {before}, "Nats-Num-Pending": {"0"}}}
	}
	var f fetched
	if err := errors.Join(f.add(reply("3", "0")), f.add(reply("7", "3")), f.end(end("7"))); err != nil {
		t.Error(err)
	}
	for name, lose := range map[string]func(*fetched) error{
		"the first": func(f *fetched) error { return f.add(reply("7", "3")) },
		"one between": func(f *fetched) error {
			return errors.Join(f.add(reply("3", "0")), f.add(reply("9", "7")))
		},
		"the last":        func(f *fetched) error { return errors.Join(f.add(reply("3", "0")), f.end(end("7"))) },
		"order":           func(f *fetched) error { return errors.Join(f.add(reply("3", "0")), f.add(reply("2", "3"))) },
		"an older server": func(f *fetched) error { return f.add(&nats.Msg{Header: nats.Header{"Nats-Sequence": {"3"}}}) },
		"no node":         func(f *fetched) error { return f.end(&nats.Msg{Header: nats.Header{"Status": {"503"}}}) },
		"bad request":     func(f *fetched) error { return f.end(&nats.Msg{Header: nats.Header{"Status": {"408"}}}) },
	} {
		if err := lose(&fetched{}); err == nil {
			t.Errorf("%s: not noticed", name)
		}
	}
}

// Messages that a replica still has after the leader removed them are left out.
func TestFetchedDrop(t *testing.T) {
	for below, want := range map[uint64]int{1: 3, 3: 3, 4: 2, 8: 1, 9: 0, 0: 0} {
		f := fetched{messages: []stored{{seq: 3}, {seq: 5}, {seq: 8}}}
		f.drop(below)
		if len(f.messages) != want {
			t.Errorf("below %d: %d left, want %d", below, len(f.messages), want)
		}
	}
}
