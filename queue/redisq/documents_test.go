package redisq_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
)

func (v *env) putDocument(name, text string) int64 {
	v.t.Helper()
	d := document.Document{Kind: "token", Name: name}
	if text != "" {
		d.Text = []byte(text)
	}
	revision, err := v.e.PutDocument(v.ctx, d, queue.AnyRevision)
	if err != nil {
		v.t.Fatal(err)
	}
	return revision
}

// since reads all documents behind a revision, some at a time.
func (v *env) since(after int64, limit int) (names []string) {
	v.t.Helper()
	for {
		page, err := v.e.DocumentsSince(v.ctx, after, limit)
		if err != nil {
			v.t.Fatal(err)
		}
		for _, d := range page.Documents {
			if d.Revision <= after {
				v.t.Fatalf("%s has revision %d, behind %d", d.Name, d.Revision, after)
			}
			after = d.Revision
			name := d.Name
			if d.Text == nil {
				name = "-" + name
			}
			names = append(names, name)
		}
		if !page.More {
			return names
		}
		if len(page.Documents) == 0 {
			v.t.Fatal("nothing to go on behind")
		}
	}
}

// Those that were deleted are told of for a day, and are gone some time later, however many they are.
func TestDeletedDocumentsAreForgotten(t *testing.T) {
	v, s, at := manual(t)
	for i := range 100 {
		v.putDocument(fmt.Sprint("t", i), `{}`)
	}
	for i := range 90 {
		v.putDocument(fmt.Sprint("t", i), "")
	}
	if names := v.since(0, 7); len(names) != 100 || names[0] != "t90" || names[99] != "-t89" {
		t.Errorf("%v", names)
	}
	*at = at.Add(document.KeepDeleted + time.Second)
	want := []string{"t90", "t91", "t92", "t93", "t94", "t95", "t96", "t97", "t98", "t99"}
	if names := v.since(0, 7); !slices.Equal(names, want) {
		t.Errorf("a day later: %v", names)
	}
	for i := range 6 {
		v.putDocument("t90", fmt.Sprint(i))
	}
	for _, key := range []string{"I", "Ir", "Id"} {
		n := s.Client().ZCard(v.ctx, "ps{0}"+key).Val() + s.Client().HLen(v.ctx, "ps{0}"+key).Val()
		if want := map[string]int64{"I": 10, "Ir": 10}[key]; n != want {
			t.Errorf("%d in %s, want %d", n, key, want)
		}
	}
	// One that is made again is not one that was deleted.
	v.putDocument("t91", "")
	v.putDocument("t91", `{"again":true}`)
	*at = at.Add(2 * document.KeepDeleted)
	v.putDocument("t92", `1`)
	if d, err := v.e.Document(v.ctx, "token", "t91"); err != nil || string(d.Text) != `{"again":true}` {
		t.Errorf("%+v, %v", d, err)
	}
}

// A page of large documents is as long as a call may take, and says that others follow.
func TestLargeDocuments(t *testing.T) {
	v, _ := audited(t, redisq.Options{})
	text := `"` + strings.Repeat("x", document.MaxBytes-2) + `"`
	for i := range 40 {
		v.putDocument(fmt.Sprint("t", i), text)
	}
	page, err := v.e.DocumentsSince(v.ctx, 0, document.MaxPage)
	if err != nil || len(page.Documents) >= 40 || !page.More || page.Run == "" {
		t.Errorf("%d documents, %v, %q, %v", len(page.Documents), page.More, page.Run, err)
	}
	if names := v.since(0, document.MaxPage); len(names) != 40 {
		t.Errorf("%d documents", len(names))
	}
}

// While a key of documents is not ours nothing is written, and put right all is as it was.
func TestPlantedDocuments(t *testing.T) {
	for _, key := range []string{"I", "Ir", "Id", "J"} {
		v, s := audited(t, redisq.Options{})
		v.putDocument("a", `{}`)
		v.putDocument("b", `{}`)
		v.putDocument("b", "")
		undo := plant(t, s, "ps{0}"+key)
		before := contents(t, s.Client())
		for _, d := range []document.Document{
			{Kind: "token", Name: "a", Text: []byte(`{"n":1}`)},
			{Kind: "token", Name: "a"},
			{Kind: "token", Name: "c", Text: []byte(`{}`)},
		} {
			if _, err := v.e.PutDocument(v.ctx, d, queue.AnyRevision); !errors.Is(err, queue.ErrCorrupt) {
				t.Errorf("%s: put %s: %v", key, d.Name, err)
			}
		}
		if after := contents(t, s.Client()); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("%s: changed from %v to %v", key, before, after)
		}
		undo()
		v.putDocument("a", `{"n":2}`)
		if names := v.since(0, 10); !slices.Equal(names, []string{"-b", "a"}) {
			t.Errorf("%s: put right: %v", key, names)
		}
	}
	v, s := audited(t, redisq.Options{})
	v.putDocument("a", `{}`)
	for _, text := range []string{"", "short", strings.Repeat("\x00", 40)} {
		s.Client().HSet(v.ctx, "ps{0}I", "token:a", text)
		before := contents(t, s.Client())
		_, err1 := v.e.Document(v.ctx, "token", "a")
		_, err2 := v.e.DocumentsSince(v.ctx, 0, 10)
		_, err3 := v.e.PutDocument(v.ctx, document.Document{Kind: "token", Name: "a"}, queue.AnyRevision)
		for _, err := range []error{err1, err2, err3} {
			if !errors.Is(err, queue.ErrCorrupt) {
				t.Errorf("%q: %v", text, err)
			}
		}
		if after := contents(t, s.Client()); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("%q: changed from %v to %v", text, before, after)
		}
	}
}

// Names that look alike, or like another kind, are others.
func TestDocumentsThatLookAlike(t *testing.T) {
	v, _ := audited(t, redisq.Options{})
	docs := []document.Document{
		{Kind: "app", Name: "a"},
		{Kind: "app", Name: "A"},
		{Kind: "app", Name: "a:a"},
		{Kind: "app_a", Name: "a"},
		{Kind: "subject", Name: "oidc:https://issuer#sub"},
		{Kind: "subject", Name: "%2e"},
		{Kind: "subject", Name: "%2E"},
	}
	for i, d := range docs {
		d.Text = fmt.Append(nil, i)
		if _, err := v.e.PutDocument(v.ctx, d, 0); err != nil {
			t.Fatal(err)
		}
	}
	page, err := v.e.DocumentsSince(v.ctx, 0, 100)
	if err != nil || len(page.Documents) != len(docs) {
		t.Fatal(page, err)
	}
	for i, want := range docs {
		got, err := v.e.Document(v.ctx, want.Kind, want.Name)
		if err != nil || string(got.Text) != fmt.Sprint(i) || got.Kind != want.Kind || got.Name != want.Name {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
		if told := page.Documents[i]; told.Kind != want.Kind || told.Name != want.Name {
			t.Errorf("told %+v, want %+v", told, want)
		}
	}
	if _, err := v.e.Document(v.ctx, "App", "a"); !errors.Is(err, document.ErrUnknown) {
		t.Errorf("%v", err)
	}
}
