package queue_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/names"
)

func TestCursorIsReadBack(t *testing.T) {
	lane := "example.com"
	for _, c := range []queue.Cursor{
		{},
		{At: 1, ID: "a"},
		{At: -1, Until: 1 << 53, Lane: strings.Repeat("\x00\xff", 8), ID: strings.Repeat("i", names.MaxIDBytes)},
	} {
		for _, lane := range []*string{nil, &lane} {
			list := queue.ListRequest{Queue: "q", State: queue.Waiting, Lane: lane}
			list.After = list.Next(c)
			if got, err := list.Cursor(); err != nil || *got != c {
				t.Errorf("read back %+v, %v; want %+v", got, err, c)
			}
			purge := queue.PurgeRequest{Queue: "q", State: queue.Waiting, Lane: lane}
			purge.After = purge.Next(c)
			if got, err := purge.Cursor(); err != nil || *got != c {
				t.Errorf("read back %+v, %v; want %+v", got, err, c)
			}
		}
	}
	if c, err := (&queue.ListRequest{Queue: "q", State: queue.Dead}).Cursor(); c != nil || err != nil {
		t.Errorf("nothing is read as %+v, %v", c, err)
	}
}

// A cursor of another list, or a changed one, is refused.
func TestCursorOfAnotherList(t *testing.T) {
	lane, empty := "a", ""
	r := queue.ListRequest{Queue: "q", State: queue.Waiting, Lane: &lane}
	good := r.Next(queue.Cursor{At: 5, ID: "job-1", Lane: "somewhere"})
	other := func(change func(*queue.ListRequest)) {
		t.Helper()
		o := r
		o.After = good
		change(&o)
		var field *invalid.Error
		if c, err := o.Cursor(); !errors.As(err, &field) || field.Field != "after" {
			t.Errorf("%+v was read as %+v, %v", o, c, err)
		}
	}
	other(func(o *queue.ListRequest) { o.Queue = "p" })
	other(func(o *queue.ListRequest) { o.State = queue.Dead })
	other(func(o *queue.ListRequest) { o.Lane = nil })
	other(func(o *queue.ListRequest) { o.Lane = &empty })
	other(func(o *queue.ListRequest) { o.After += "A" })
	other(func(o *queue.ListRequest) { o.After = "\x00" })
	other(func(o *queue.ListRequest) { o.After = strings.Repeat("A", 1<<20) })
	for i := range good {
		for _, c := range []string{"A", "z", "-", "=", "", "é"} {
			if changed := good[:i] + c + good[i+1:]; changed != good {
				other(func(o *queue.ListRequest) { o.After = changed })
			}
		}
		if i > 0 {
			other(func(o *queue.ListRequest) { o.After = good[:i] })
		}
	}
	purge := queue.PurgeRequest{Queue: r.Queue, State: r.State, Lane: r.Lane, After: good}
	if c, err := purge.Cursor(); err == nil {
		t.Errorf("a page's end was read as a purge's: %+v", c)
	}
}

func FuzzCursor(f *testing.F) {
	r := queue.ListRequest{Queue: "q", State: queue.Dead}
	f.Add(r.Next(queue.Cursor{At: 7, ID: "x"}))
	f.Add("AAAAAAAAAAA")
	f.Fuzz(func(t *testing.T, after string) {
		r := r
		r.After = after
		if c, err := r.Cursor(); err == nil && c != nil && r.Next(*c) != after {
			t.Errorf("%q is another text of %+v", after, c)
		}
	})
}
