package deferred

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// Foreign messages become dead letters, jobs behind them come back, and messages without an addressable subject are
// left alone.
func TestNotOurs(t *testing.T) {
	r := newRig(t)
	putSpec(t, r, specFor("a", 100))
	publish := func(subject, body string, h nats.Header) {
		t.Helper()
		// As a client that checks nothing.
		nc := connect(t, r.stream.nc.ConnectedUrl(), nats.SkipSubjectValidation())
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: subject, Data: []byte(body), Header: h}); err != nil {
			t.Fatal(err)
		}
	}
	ours := nats.Header{formatHeader: {format}}
	publish("penstock.deferred.a", "hello", nil)
	noError(t, r.stream.Put(t.Context(), itemsNow("a", []string{"1", "2"})))
	publish("penstock.deferred.a", "hello again", ours)
	publish("penstock.deferred.a", "", ours)
	publish("penstock.deferred.a", "newer", nats.Header{formatHeader: {"2"}, "Nats-Sequence": {"1"}})
	noError(t, r.stream.Put(t.Context(), itemsNow("a", []string{"3"})))
	publish("penstock.deferred.A", "no queue", nil)
	publish("penstock.deferred.a.b.c", "nor this", ours)
	publish("penstock.deferred.>", "nor this, and more than that", ours)
	publish("penstock.deferred.*", "nor this", ours)

	runReadmitter(t, r.readmitter())
	if got := leave(t, r, 3); fmt.Sprint(got) != "[1 2 3]" {
		t.Error(got)
	}
	await.Until(t, "the others are dead letters", func() bool { return onStream(t, r.stream, "penstock.deferred.>") == 2 })
	var got []string
	for _, l := range deadLetters(t, r.stream) {
		if l.Header.Get(HeaderReason) != "not_ours" || l.Header.Get(HeaderSequence) == "" {
			t.Errorf("%+v", l.Header)
		}
		got = append(got, l.Subject+" "+l.Header.Get(HeaderSubject)+" "+string(l.Data))
	}
	slices.Sort(got)
	want := []string{
		"penstock.dead._ penstock.deferred.A no queue",
		"penstock.dead._ penstock.deferred.a.b.c nor this",
		"penstock.dead.a penstock.deferred.a ",
		"penstock.dead.a penstock.deferred.a hello",
		"penstock.dead.a penstock.deferred.a hello again",
		"penstock.dead.a penstock.deferred.a newer",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	// They still stand there, and harm nobody.
	defers(t, newAppender(t, r, r.stream), "a", numbered(300))
	leave(t, r, 300)
	r.idle(t, "a")
	if n := onStream(t, r.stream, "penstock.deferred.>"); n != 2 {
		t.Errorf("%d left", n)
	}
}

// A dead letter has everything that the job had.
func TestDeadLetter(t *testing.T) {
	r := newRig(t)
	putSpec(t, r, specFor("a", 100))
	defers(t, newAppender(t, r, r.stream), "a", []string{"1"})
	expires := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	i := itemFor(queue.Job{
		Queue: "a", ID: "1", Payload: []byte("other"), ContentType: "text/plain", Cost: 3, ExpiresAt: expires,
		Lane: "é\r\nX: b", Priority: 4, NotBefore: expires.Add(-time.Minute),
		Headers: map[string]string{"X-Trace": "abc", "nats-msg-id": "mine"},
	}, "")
	i.At = time.Now().Truncate(time.Microsecond)
	noError(t, r.stream.Put(t.Context(), []Item{itemsNow("a", []string{"2"})[0], i}))
	runReadmitter(t, r.readmitter())
	leave(t, r, 2)
	await.Until(t, "a dead letter", func() bool { return len(deadLetters(t, r.stream)) == 1 })
	l := deadLetters(t, r.stream)[0]
	for name, want := range map[string]string{
		HeaderReason: "clash", HeaderID: "1", HeaderQueue: "a", HeaderContentType: "text/plain", HeaderCost: "3",
		HeaderLane: "%C3%A9%0D%0AX:%20b", HeaderPriority: "4", HeaderNotBefore: expires.Add(-time.Minute).Format(timeFormat),
		HeaderExpiresAt: expires.Format(timeFormat), HeaderDeferredAt: i.At.UTC().Format(timeFormat),
		HeaderSubject:  "penstock.deferred.a",
		HeaderSequence: "1", HeaderPrefix + "X-Trace": "abc", HeaderPrefix + "nats-msg-id": "mine",
	} {
		if got := l.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if string(l.Data) != "other" || l.Header.Get(HeaderDetail) == "" {
		t.Errorf("%q %+v", l.Data, l.Header)
	}
}

// A foreign message as large as NATS allows becomes a dead letter, too.
func TestNotOursLarge(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	putSpec(t, r, specFor("a", 100))
	size := int(r.stream.nc.MaxPayload())
	if _, err := r.stream.js.Publish(t.Context(), "penstock.deferred.a", make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	runReadmitter(t, r.readmitter())
	await.Until(t, "a dead letter", func() bool { return len(deadLetters(t, r.stream)) == 1 })
	l := deadLetters(t, r.stream)[0]
	if len(l.Data) != size-headroom || l.Header.Get(HeaderCut) != fmt.Sprint(size) {
		t.Errorf("%d bytes, %+v", len(l.Data), l.Header)
	}
	r.idle(t, "a")
}

// Jobs that are too old or too late become dead jobs of the queue, even while it is full.
func TestTooOld(t *testing.T) {
	r := newRig(t)
	spec := specFor("a", 2)
	spec.Deferred.MaxAge = unit.Duration(time.Hour)
	putSpec(t, r, spec)
	a := newAppender(t, r, r.stream)
	for _, id := range []string{"1", "2", "3", "4"} {
		defers(t, a, "a", []string{id}) // a message each
	}
	late := job("a", "late")
	late.ExpiresAt = time.Now().Add(30 * time.Minute)
	if x := one(t, a, late); x.State != queue.Deferred {
		t.Errorf("%+v", x)
	}
	more := numbered(20) // one look each, at one in 10 s, would take too long
	for _, id := range more {
		defers(t, a, "a", []string{id})
	}
	r.clock.jump(time.Hour + time.Minute)
	noError(t, r.stream.Put(t.Context(), itemsAt("a", []string{"young"}, time.Now().Add(time.Hour))))
	runReadmitter(t, r.readmitter())
	await.Until(t, "the old ones are dead", func() bool { return r.info(t, "a").Dead == 23 })
	for id, want := range map[string]string{"3": "max_age", "4": "max_age", "late": "max_age"} {
		if info, err := r.Job(t.Context(), "a", id); err != nil || info.State != queue.Dead ||
			!strings.Contains(info.Reason, want) {
			t.Errorf("%s: %+v %v", id, info, err)
		}
	}
	await.Until(t, "the observer knows", func() bool {
		r.seen.mu.Lock()
		defer r.seen.mu.Unlock()
		return r.seen.dead[TooOld] == 23 && r.seen.depth["a"] == 1 && !r.seen.oldest["a"].IsZero()
	})
	if got := leave(t, r, 3); fmt.Sprint(got) != "[1 2 young]" {
		t.Error(got)
	}
	r.idle(t, "a")
	if n := len(deadLetters(t, r.stream)); n != 0 {
		t.Errorf("%d dead letters on the overflow", n)
	}
}

func itemsAt(name string, ids []string, at time.Time) []Item {
	items := itemsFor(name, ids)
	for i := range items {
		items[i].At = at
	}
	return items
}

// The jobs of a deleted queue become dead letters, even if the queue was created again; jobs deferred since come back.
func TestQueueDeleted(t *testing.T) {
	r := newRig(t)
	putSpec(t, r, specFor("gone", 2))
	putSpec(t, r, specFor("again", 2))
	a := newAppender(t, r, r.stream)
	ids := numbered(100)
	defers(t, a, "gone", ids)
	defers(t, a, "again", ids)
	for _, name := range []string{"gone", "again"} {
		if err := r.Delete(t.Context(), name, queue.AnyRevision, true); err != nil {
			t.Fatal(err)
		}
	}
	putSpec(t, r, specFor("again", 2))
	defers(t, a, "again", []string{"new1", "new2", "new3"})
	runReadmitter(t, r.readmitter())
	runReadmitter(t, r.readmitter()) // together they write each letter once
	await.Until(t, "98 + 98 dead letters", func() bool {
		return onStream(t, r.stream, "penstock.deferred.gone") == 0 && r.seenDead() >= 196
	})
	if got := leave(t, r, 3); fmt.Sprint(got) != "[new1 new2 new3]" {
		t.Error(got)
	}
	r.idle(t, "again")
	count := map[string]int{}
	for _, l := range deadLetters(t, r.stream) {
		count[l.Subject+" "+l.Header.Get(HeaderReason)]++
	}
	if len(count) != 2 || count["penstock.dead.gone queue_deleted"] != 98 || count["penstock.dead.again orphaned"] != 98 {
		t.Errorf("%v", count)
	}
}

func (r *rig) seenDead() (n int) {
	r.seen.mu.Lock()
	defer r.seen.mu.Unlock()
	for _, k := range r.seen.dead {
		n += k
	}
	return n
}

// While dead letters cannot be stored, nothing is removed, and Stuck says why nothing comes back and what to do. It
// recovers by itself.
func TestDeadStreamFull(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	putSpec(t, r, specFor("a", 100))
	dead, err := r.stream.js.Stream(t.Context(), r.stream.deadName)
	if err != nil {
		t.Fatal(err)
	}
	config := dead.CachedInfo().Config
	config.MaxMsgs = 1
	if _, err := r.stream.js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"a", "a", "B", "B"} { // B is not a queue
		if _, err := r.stream.js.Publish(t.Context(), "penstock.deferred."+subject, []byte("hello")); err != nil {
			t.Fatal(err)
		}
	}
	noError(t, r.stream.Put(t.Context(), itemsNow("a", []string{"1"})))
	m := r.readmitter()
	stop := runReadmitter(t, m)
	await.Until(t, "both return paths are stuck", func() bool {
		err := r.stream.Stuck()
		return err != nil && strings.Contains(err.Error(), `subject "penstock.deferred.B" and 1 more`)
	})
	told := r.stream.Status().Stuck
	for _, want := range []string{"PENSTOCK_DEAD", "nats stream view", "nats stream purge", "maximum messages exceeded"} {
		if !strings.Contains(told.Error(), want) {
			t.Errorf("%q is not in %v", want, told)
		}
	}
	r.seen.mu.Lock()
	if !errors.Is(told, ErrFull) || r.seen.unburied < 2 || !errors.Is(r.seen.why, ErrFull) {
		t.Errorf("%v; the observer saw %d, %v", told, r.seen.unburied, r.seen.why)
	}
	r.seen.mu.Unlock()
	await.Until(t, "it is tried ever more seldom", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		w := m.paths["penstock.deferred.a"]
		return !w.running && w.tries >= 3
	})
	if err := r.stream.Connected(); err != nil {
		t.Errorf("more can be deferred all the same, but %v", err)
	}
	if n := onStream(t, r.stream, "penstock.deferred.>"); n < 4 {
		t.Errorf("%d left", n)
	}

	// A process that stops no longer knows; the next one finds out itself.
	stop()
	if err := r.stream.Stuck(); err != nil {
		t.Errorf("nobody looks, but %v", err)
	}
	runReadmitter(t, r.readmitter())
	await.Until(t, "both are stuck again", func() bool {
		err := r.stream.Stuck()
		return err != nil && strings.Contains(err.Error(), "and 1 more")
	})
	if err := dead.Purge(t.Context()); err != nil { // as the advice is: there is place for one
		t.Fatal(err)
	}
	await.Until(t, "one is there", func() bool { return len(deadLetters(t, r.stream)) == 1 })
	config.MaxMsgs = -1
	if _, err := r.stream.js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	leave(t, r, 1)
	r.idle(t, "a")
	await.Until(t, "nothing is stuck", func() bool { return r.stream.Stuck() == nil })
	if n := len(deadLetters(t, r.stream)); n != 3 { // and one before
		t.Errorf("%d dead letters", n)
	}
}

// A head that cannot become a dead letter is no longer stuck once it was removed.
func TestStuckRemoved(t *testing.T) {
	r := newRig(t)
	putSpec(t, r, specFor("a", 100))
	if err := r.stream.js.DeleteStream(t.Context(), r.stream.deadName); err != nil {
		t.Fatal(err)
	}
	ack, err := r.stream.js.Publish(t.Context(), "penstock.deferred.a", []byte("hello"))
	if err != nil {
		t.Fatal(err)
	}
	noError(t, r.stream.Put(t.Context(), itemsNow("a", []string{"1"})))
	runReadmitter(t, r.readmitter())
	await.Until(t, "it is stuck", func() bool { return r.stream.Stuck() != nil })
	if err := r.stream.Stuck(); !strings.Contains(err.Error(), "queue a:") ||
		!strings.Contains(err.Error(), "check that the stream exists") {
		t.Error(err)
	}
	if err := r.stream.jobs.DeleteMsg(t.Context(), ack.Sequence); err != nil {
		t.Fatal(err)
	}
	leave(t, r, 1)
	await.Until(t, "nothing is stuck", func() bool { return r.stream.Stuck() == nil })
}
