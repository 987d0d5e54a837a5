package queuetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
)

// putDocument writes a document, or deletes it if text is empty, and returns its revision.
func (r *rig) putDocument(kind, name, text string) int64 {
	r.Helper()
	revision, err := r.e.PutDocument(r.ctx, doc(kind, name, text), queue.AnyRevision)
	r.check(err)
	return revision
}

func doc(kind, name, text string) document.Document {
	d := document.Document{Kind: kind, Name: name}
	if text != "" {
		d.Text = []byte(text)
	}
	return d
}

// checkDocument compares a document; an empty text means that it must not exist.
func (r *rig) checkDocument(kind, name, text string, revision int64, at time.Time) {
	r.Helper()
	got, err := r.e.Document(r.ctx, kind, name)
	if text == "" {
		r.refuses(err, document.ErrUnknown)
		return
	}
	r.check(err)
	if got.Kind != kind || got.Name != name || string(got.Text) != text || got.Revision != revision ||
		!got.At.Equal(at) {
		r.Errorf("got %+v with %s, want %s at %d, %v", got, got.Text, text, revision, at)
	}
}

// since reads the documents written after a revision, in pages, and checks their order.
func (r *rig) since(after int64, limit int) (list []document.Document) {
	r.Helper()
	for {
		page, err := r.e.DocumentsSince(r.ctx, after, limit)
		r.check(err)
		if len(page.Documents) > limit || page.More && len(page.Documents) == 0 || page.Run == "" {
			r.Fatalf("a page of %d, more %v, of run %q", len(page.Documents), page.More, page.Run)
		}
		for _, d := range page.Documents {
			if d.Revision <= after {
				r.Fatalf("%s %s is at %d, behind %d", d.Kind, d.Name, d.Revision, after)
			}
			after = d.Revision
			list = append(list, d)
		}
		if !page.More {
			return list
		}
	}
}

// checkSince compares the names of the documents written after a revision; deleted ones begin with -.
func (r *rig) checkSince(after int64, want ...string) {
	r.Helper()
	for _, limit := range []int{1, 3, document.MaxPage} {
		var got []string
		for _, d := range r.since(after, limit) {
			name := d.Kind + " " + d.Name
			if d.Text == nil {
				name = "-" + name
			}
			got = append(got, name)
		}
		if !slices.Equal(got, want) {
			r.Errorf("behind %d, %d at a time: %q, want %q", after, limit, got, want)
		}
	}
}

var documentRules = []rule{
	{"a document is kept byte by byte", func(r *rig) {
		for i, text := range []string{
			`{}`, `1`, `null`, `"ä\u0000"`, `{ "b":1.0 , "a":12345678901234567890, "a":[] }`,
			`"` + strings.Repeat("x", document.MaxBytes-2) + `"`,
		} {
			name := fmt.Sprint("n", i)
			r.clock.Advance(time.Second)
			revision := r.putDocument("app", name, text)
			r.checkDocument("app", name, text, revision, r.clock.Now().Time())
		}
		r.checkDocument("token", "n1", "", 0, time.Time{})
		r.checkDocument("app", "n9", "", 0, time.Time{})
	}},
	{"kinds do not share names, and names differ by any byte", func(r *rig) {
		names := []string{"a", "A", "a:b", "a.b", "a/b", "a*", "b:c", "~!@#", strings.Repeat("n", document.MaxNameBytes)}
		for i, name := range names {
			r.putDocument("app", name, fmt.Sprint(i))
			r.putDocument("token", name, fmt.Sprint(100+i))
		}
		for i, name := range names {
			for kind, want := range map[string]string{"app": fmt.Sprint(i), "token": fmt.Sprint(100 + i)} {
				if d, err := r.e.Document(r.ctx, kind, name); err != nil || string(d.Text) != want {
					r.Errorf("%s %s is %s, %v; want %s", kind, name, d.Text, err, want)
				}
			}
		}
	}},
	{"a write needs the expected revision", func(r *rig) {
		d := doc("app", "a", `1`)
		_, err := r.e.PutDocument(r.ctx, d, 7)
		r.refuses(err, queue.ErrRevision)
		one, err := r.e.PutDocument(r.ctx, d, 0)
		r.check(err)
		d.Text = []byte(`2`)
		for _, expect := range []int64{0, one - 1, one + 1} {
			present, err := r.e.PutDocument(r.ctx, d, expect)
			r.refuses(err, queue.ErrRevision)
			if present != one {
				r.Errorf("the error says revision %d, want %d", present, one)
			}
		}
		two, err := r.e.PutDocument(r.ctx, d, one)
		r.check(err)
		d.Text = nil
		present, err := r.e.PutDocument(r.ctx, d, one)
		if r.refuses(err, queue.ErrRevision); present != two || two <= one {
			r.Errorf("the error says revision %d, want %d, after %d", present, two, one)
		}
		three, err := r.e.PutDocument(r.ctx, d, two)
		if r.check(err); three <= two {
			r.Errorf("deleted at %d, behind %d", three, two)
		}
		r.checkDocument("app", "a", "", 0, time.Time{})
		d.Text = []byte(`3`)
		present, err = r.e.PutDocument(r.ctx, d, three)
		if r.refuses(err, queue.ErrRevision); present != 0 {
			r.Errorf("the error says that a deleted document is at %d", present)
		}
		four, err := r.e.PutDocument(r.ctx, d, 0)
		if r.check(err); four <= three {
			r.Errorf("made again at %d, behind %d", four, three)
		}
	}},
	{"an equal text changes nothing", func(r *rig) {
		one := r.putDocument("app", "a", `{"n":1}`)
		r.clock.Advance(time.Second)
		for _, expect := range []int64{queue.AnyRevision, one} {
			got, err := r.e.PutDocument(r.ctx, doc("app", "a", `{"n":1}`), expect)
			if r.check(err); got != one {
				r.Errorf("expecting %d: at %d, want %d", expect, got, one)
			}
		}
		r.checkDocument("app", "a", `{"n":1}`, one, r.clock.Now().Add(-time.Second).Time())
		_, err := r.e.PutDocument(r.ctx, doc("app", "a", `{"n":1}`), 0)
		r.refuses(err, queue.ErrRevision)
		if n := len(r.auditOf(0)); n != 1 {
			r.Errorf("%d entries", n)
		}
	}},
	{"an unknown document cannot be deleted", func(r *rig) {
		for _, expect := range []int64{queue.AnyRevision, 0, 1} {
			_, err := r.e.PutDocument(r.ctx, doc("app", "a", ""), expect)
			r.refuses(err, document.ErrUnknown)
		}
		r.putDocument("app", "a", `1`)
		r.putDocument("app", "a", "")
		_, err := r.e.PutDocument(r.ctx, doc("app", "a", ""), queue.AnyRevision)
		r.refuses(err, document.ErrUnknown)
		r.checkSince(0, "-app a")
	}},
	{"an invalid document is refused and changes nothing", func(r *rig) {
		long := `"` + strings.Repeat("x", document.MaxBytes-1) + `"`
		for _, bad := range []struct {
			field string
			d     document.Document
		}{
			{"kind", doc("", "a", `1`)},
			{"kind", doc("App", "a", `1`)},
			{"kind", doc("a:b", "a", `1`)},
			{"kind", doc("a\x00b", "a", `1`)},
			{"kind", doc(strings.Repeat("k", 17), "a", `1`)},
			{"name", doc("app", "", `1`)},
			{"name", doc("app", "a b", `1`)},
			{"name", doc("app", "a\x00b", `1`)},
			{"name", doc("app", "ä", `1`)},
			{"name", doc("app", strings.Repeat("n", document.MaxNameBytes+1), `1`)},
			{"name", doc("app", "a\n", "")},
			{"text", doc("app", "a", `{`)},
			{"text", doc("app", "a", `1 2`)},
			{"text", doc("app", "a", "{\n}")},
			{"text", doc("app", "a", long)},
			{"text", document.Document{Kind: "app", Name: "a", Text: []byte{}}},
		} {
			_, err := r.e.PutDocument(r.ctx, bad.d, queue.AnyRevision)
			r.refusesField(bad.field, err)
			if bad.field != "text" {
				_, err := r.e.Document(r.ctx, bad.d.Kind, bad.d.Name)
				r.refuses(err, document.ErrUnknown)
			}
		}
		_, err := r.e.PutDocument(audit.WithNote(r.ctx, "a\nb"), doc("app", "a", `1`), 0)
		r.refusesField("by", err)
		for _, limit := range []int{-1, 0, document.MaxPage + 1} {
			_, err := r.e.DocumentsSince(r.ctx, 0, limit)
			r.refusesField("limit", err)
		}
		r.checkSince(0)
		if n := len(r.auditOf(0)); n != 0 {
			r.Errorf("%d entries", n)
		}
	}},
	{"documents are listed in the order of their last writes, each once", func(r *rig) {
		r.checkSince(0)
		for i := range 7 {
			r.putDocument("app", fmt.Sprint(i), `1`)
		}
		two := r.putDocument("app", "2", `2`)
		r.putDocument("token", "2", `2`)
		r.putDocument("app", "0", "")
		r.putDocument("app", "1", `1`) // with the same text
		r.checkSince(0, "app 1", "app 3", "app 4", "app 5", "app 6", "app 2", "token 2", "-app 0")
		r.checkSince(two, "token 2", "-app 0")
		r.putDocument("app", "0", `1`)
		r.checkSince(two, "token 2", "app 0")
		last := r.putDocument("app", "0", `2`)
		r.checkSince(last)
		r.checkSince(last + 1000)
	}},
	{"deleted documents are listed for a day", func(r *rig) {
		r.putDocument("app", "a", `1`)
		r.putDocument("app", "b", `1`)
		r.putDocument("app", "a", "")
		r.clock.Advance(time.Hour)
		r.putDocument("app", "b", "")
		r.putDocument("app", "c", `1`)
		r.clock.Advance(document.KeepDeleted - time.Hour - time.Microsecond)
		r.checkSince(0, "-app a", "-app b", "app c")
		r.clock.Advance(time.Microsecond)
		r.checkSince(0, "-app b", "app c")
		r.putDocument("app", "a", `2`) // is not forgotten with the deleted document
		r.putDocument("app", "d", `1`)
		r.clock.Advance(time.Hour)
		r.checkSince(0, "app c", "app a", "app d")
		r.putDocument("app", "d", `2`)
		r.checkDocument("app", "b", "", 0, time.Time{})
		r.checkSince(0, "app c", "app a", "app d")
	}},
	{"after a jump of the host's clock, the day is one of that clock", func(r *rig) {
		r.putDocument("app", "b", `1`)
		r.clock.Advance(-time.Minute) // the engine's clock stays ahead
		r.putDocument("app", "a", `1`)
		r.putDocument("app", "a", "")
		r.clock.Advance(document.KeepDeleted - time.Microsecond)
		r.checkSince(0, "app b", "-app a")
		r.clock.Advance(time.Microsecond)
		r.checkSince(0, "app b")
	}},
	{"of concurrent writes at one revision one succeeds", func(r *rig) {
		const writers, rounds = 8, 10
		revision := r.putDocument("app", "a", `"begin"`)
		for round := range rounds {
			won, each := r.crowd(writers, func(i int) int {
				d := doc("app", "a", fmt.Sprintf(`"%d %d"`, round, i))
				got, err := r.e.PutDocument(r.ctx, d, revision)
				switch {
				case err == nil && got > revision:
					return 1
				case errors.Is(err, queue.ErrRevision) && got > revision:
					return 0
				}
				r.Errorf("at %d: %v", got, err)
				return 0
			})
			d, err := r.e.Document(r.ctx, "app", "a")
			r.check(err)
			if i := slices.Index(each, 1); won != 1 || string(d.Text) != fmt.Sprintf(`"%d %d"`, round, i) {
				r.Fatalf("%d wrote: %v; it is %s", won, each, d.Text)
			}
			revision = d.Revision
		}
		if n := len(r.auditOf(0)); n != 1+rounds {
			r.Errorf("%d entries", n)
		}
	}},
	{"a follower sees every concurrent write", func(r *rig) {
		const writers, each = 6, 15
		var wg sync.WaitGroup
		done := make(chan struct{})
		seen := map[string]string{}
		follow := func(after int64) int64 {
			for _, d := range r.since(after, 5) {
				seen[d.Name], after = string(d.Text), d.Revision
			}
			return after
		}
		for w := range writers {
			wg.Go(func() {
				for i := range each {
					d := doc("app", fmt.Sprint(w, ":", i%4), fmt.Sprint(i))
					if _, err := r.e.PutDocument(r.ctx, d, queue.AnyRevision); err != nil {
						r.Error(err)
					}
				}
			})
		}
		go func() { wg.Wait(); close(done) }()
		var after int64
		for following := true; following; {
			select {
			case <-done:
				following = false
			default:
			}
			after = follow(after)
		}
		for _, d := range r.since(0, document.MaxPage) {
			if seen[d.Name] != string(d.Text) {
				r.Errorf("%s was seen as %s and is %s", d.Name, seen[d.Name], d.Text)
			}
			delete(seen, d.Name)
		}
		if len(seen) != 0 {
			r.Errorf("seen and not there: %v", seen)
		}
	}},
	{"a run has one name", func(r *rig) {
		first, err := r.e.DocumentsSince(r.ctx, 0, 1)
		r.check(err)
		r.putDocument("app", "a", `1`)
		second, err := r.e.DocumentsSince(r.ctx, 0, 1)
		if r.check(err); first.Run != second.Run || first.Run == "" {
			r.Errorf("%q and %q", first.Run, second.Run)
		}
	}},
}
