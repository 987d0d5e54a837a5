package boltq

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/rules"
)

// A failed commit leaves no entry, and the chain continues where it was, now and after reopening.
func TestAuditAfterFailedCommits(t *testing.T) {
	n := &noSpace{}
	b := start(t, Options{fault: n.fault})
	ctx := context.Background()
	b.MustPut("q", "1/s")
	b.AppendTo("q", 0, 2)
	if _, err := b.putDoc("a", `1`); err != nil {
		t.Fatal(err)
	}
	refused := audit.Entry{Of: "app", Name: "a", What: changekind.Refused, Refused: "forbidden"}
	before := len(checkAudit(t, b.Engine))
	attempts := map[string]func() error{
		"document":       func() error { return second(b.putDoc("a", `2`)) },
		"new document":   func() error { return second(b.putDoc("b", `2`)) },
		"delete":         func() error { return second(b.putDoc("a", "")) },
		"record":         func() error { return b.Record(ctx, refused) },
		"pause":          func() error { return b.Pause(ctx, "q", queue.Pause{}) },
		"cancel":         func() error { return second(b.Cancel(ctx, "q", enginetest.Job("q", 0).ID)) },
		"document again": func() error { return second(b.putDoc("a", `3`)) },
	}
	for what, try := range attempts {
		n.all.Store(true)
		if err := try(); !errors.Is(err, queue.ErrStoreFull) {
			t.Errorf("%s: %v", what, err)
		}
		n.all.Store(false)
		b.forgive()
		if got := len(checkAudit(t, b.Engine)); got != before {
			t.Errorf("%s: %d entries, want %d", what, got, before)
		}
	}
	for _, what := range []string{"document", "new document", "record", "pause", "cancel", "delete", "document again"} {
		if err := attempts[what](); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if before++; len(checkAudit(t, b.Engine)) != before {
			t.Errorf("%s left no entry", what)
		}
	}
	b.reopen()
	if got := len(checkAudit(t, b.Engine)); got != before {
		t.Errorf("%d entries, want %d", got, before)
	}
	if _, err := b.putDoc("a", `4`); err != nil {
		t.Error(err)
	}
	if got := len(checkAudit(t, b.Engine)); got != before+1 {
		t.Errorf("%d entries, want %d", got, before+1)
	}
}

// Refunds and resets made while the store is full have their entry before they are visible in the file, however many
// commits fail, and the number that can wait is limited.
const maxOwedAudit = 100 // as queue/machine bounds it

func TestAuditOfTakesWithoutRoom(t *testing.T) {
	n := &noSpace{}
	b := start(t, Options{fault: n.fault, saveAfter: time.Millisecond})
	ctx := audit.WithActor(context.Background(), audit.Actor{Name: "unix:0"})
	if _, err := b.PutRule(ctx, enginetest.PerHour("g.r", 10), 0); err != nil {
		t.Fatal(err)
	}
	ask := func(op rules.TakeOp, key string) error {
		taken, err := b.Take(ctx, "g.r", []rules.Take{{Op: op, Key: key, Cost: 4}})
		if err == nil {
			err = taken[0].Err
		}
		return err
	}
	count := func() (refunds, resets int) {
		entries, _ := verified(t, b.Engine)
		for i := range entries {
			switch {
			case entries[i].What == changekind.Refunded:
				refunds++
			case entries[i].What == changekind.Reset:
				resets++
			}
		}
		return refunds, resets
	}
	for _, key := range []string{"k", "l"} {
		if err := ask(rules.TakeNow, key); err != nil {
			t.Fatal(err)
		}
	}
	n.all.Store(true)
	for range 3 {
		if err := errors.Join(ask(rules.TakeBack, "k"), ask(rules.TakeAnew, "l")); err != nil {
			t.Error(err)
		}
		b.forgive()
	}
	refused := 0
	for range maxOwedAudit {
		if err := ask(rules.TakeAnew, "m"); errors.Is(err, queue.ErrStoreFull) {
			refused++
		}
		b.forgive()
	}
	if refused != 6 {
		t.Errorf("%d were refused, want 6", refused)
	}
	if refunds, resets := count(); refunds+resets != 0 {
		t.Errorf("%d and %d entries in a file that is full", refunds, resets)
	}
	n.all.Store(false)
	b.forgive()
	if _, err := b.putDoc("a", "1"); err != nil {
		t.Fatal(err)
	}
	if refunds, resets := count(); refunds != 3 || resets != maxOwedAudit-3 {
		t.Errorf("%d and %d entries", refunds, resets)
	}
	b.reopen()
	if refunds, resets := count(); refunds != 3 || resets != maxOwedAudit-3 {
		t.Errorf("%d and %d entries in the file", refunds, resets)
	}
}

// After an I/O error nothing is written, and everything acknowledged is there when the file is opened again.
func TestAuditAfterAnIOError(t *testing.T) {
	d := &breakable{}
	b := start(t, Options{openFile: d.open})
	b.MustPut("q", "1/s")
	if _, err := b.putDoc("a", `1`); err != nil {
		t.Fatal(err)
	}
	d.fail(t)
	if _, err := b.putDoc("a", `2`); !errors.Is(err, queue.ErrOutcomeUnknown) || !errors.Is(err, syscall.EBADF) {
		t.Errorf("the write that met it: %v", err)
	}
	for what, err := range map[string]error{
		"write": second(b.putDoc("a", `3`)),
		"record": b.Record(t.Context(), audit.Entry{
			Of: "app", Name: "a", What: changekind.Refused, Refused: "forbidden",
		}),
	} {
		if !errors.Is(err, queue.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	b.opts.openFile = nil
	b.reopen()
	got, err := b.Document(t.Context(), "app", "a")
	if err != nil || string(got.Text) != `1` {
		t.Errorf("%s, %v", got.Text, err)
	}
	if n := len(checkAudit(t, b.Engine)); n != 2 {
		t.Errorf("%d entries", n)
	}
}
