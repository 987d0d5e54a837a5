package boltq

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/queue"
)

// putDoc writes a document, or deletes it if text is empty.
func (b *bench) putDoc(name, text string) (int64, error) {
	d := document.Document{Kind: "app", Name: name}
	if text != "" {
		d.Text = []byte(text)
	}
	return b.PutDocument(context.Background(), d, queue.AnyRevision)
}

// Deleted documents leave nothing behind after a day.
func TestDeletedDocumentsAreForgotten(t *testing.T) {
	b := start(t, Options{})
	for i := range 30 {
		for _, text := range []string{`1`, ""} {
			if _, err := b.putDoc(fmt.Sprint("d", i), text); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.reopen()
	b.Advance(document.KeepDeleted)
	for i := range 20 {
		b.Advance(time.Second)
		if _, err := b.putDoc("a", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	for table, want := range map[string]int{"documents": 1, "docwrites": 1, "docdeletes": 0} {
		if n := b.records([]byte(table)); n != want {
			t.Errorf("%d in %s, want %d", n, table, want)
		}
	}
}

// A reopened store is another run.
func TestRunOfDocuments(t *testing.T) {
	b := start(t, Options{})
	run := func() string {
		page, err := b.DocumentsSince(t.Context(), 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		return page.Run
	}
	first := run()
	if second := run(); first != second {
		t.Errorf("%s and %s", first, second)
	}
	b.reopen()
	if again := run(); again == first {
		t.Errorf("%s twice", again)
	}
}
