package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// kept is an ingress with a queue email that has dead jobs of two reasons.
func kept(t *testing.T, busy, unknown int) queue.Engine {
	t.Helper()
	return settled(t, queue.Bury, busy, unknown)
}

// settled is one whose jobs ended with that verdict, for two reasons.
func settled(t *testing.T, verdict queue.Verdict, busy, unknown int) queue.Engine {
	t.Helper()
	url, store := ingressAndStore(t)
	t.Setenv("PENSTOCK_URL", url)
	if _, err := store.Put(t.Context(), queue.Spec{Name: "email", Rate: leaky.Unlimited}, queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
	number := uint64(0)
	for reason, n := range map[string]int{"421 busy": busy, "550 no such user": unknown} {
		var list []queue.Job
		for i := range n {
			list = append(list, queue.Job{Queue: "email", ID: fmt.Sprintf("%.3s-%d", reason, i), Payload: []byte("1")})
		}
		if _, err := store.Append(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		for n > 0 {
			number++
			r, err := store.Reserve(t.Context(), queue.ReserveRequest{
				Client: queue.Client{ID: "c"}, Number: number, Max: queue.MaxReserve,
			})
			if err != nil {
				t.Fatal(err)
			}
			var out []queue.Settlement
			for _, j := range r.Jobs {
				out = append(out, queue.Settlement{
					Lease: queue.Lease{Queue: j.Queue, ID: j.ID, Fence: j.Fence}, Verdict: verdict, Reason: reason,
				})
			}
			if _, err := store.Settle(t.Context(), out); err != nil {
				t.Fatal(err)
			}
			n -= len(r.Jobs)
		}
	}
	return store
}

// What is listed for programs has what the jobs carry.
func TestPayloadsAreListed(t *testing.T) {
	kept(t, 30, 2)
	for _, c := range []struct {
		want int
		args []string
	}{
		{32, []string{"dead", "ls", "email", "-o", "json"}},
		{2, []string{"dead", "ls", "email", "-o", "json", "--reason", "no such"}},
		{25, []string{"dead", "ls", "email", "-o", "json", "--limit", "25"}},
		{32, []string{"job", "ls", "email", "--state", "dead", "-o", "json", "--payload"}},
		{0, []string{"job", "ls", "email", "--state", "dead", "-o", "json"}},
		{1, []string{"job", "get", "email", "421-0", "-o", "json"}},
	} {
		r := expect(t, ExitDone, "", "", c.args...)
		if got := strings.Count(r.out, `"payload": 1`); got != c.want {
			t.Errorf("%v: %d payloads, want %d\n%s", c.args, got, c.want, r.out)
		}
	}
	expect(t, ExitDone, "payload   1\n", "", "job", "get", "email", "421-0")
	expect(t, ExitUsage, "", "-o json", "job", "ls", "email", "--payload")
}

func TestDead(t *testing.T) {
	store := kept(t, 3, 2)
	r := expect(t, ExitDone, "DIED", "", "dead", "ls", "email")
	if strings.Count(r.out, "421 busy") != 3 || strings.Count(r.out, "550 no such user") != 2 {
		t.Errorf("listed\n%s", r.out)
	}
	if r := expect(
		t, ExitDone, `"id": "550-1"`, "", "dead", "ls", "email", "--reason", "user", "-o", "json",
	); strings.Contains(r.out, "421 busy") {
		t.Errorf("listed\n%s", r.out)
	}
	expect(t, ExitDone, "ID", "there are more", "dead", "ls", "email", "--limit", "1")
	expect(t, ExitDone, "3 jobs would be replayed\n", "", "dead", "replay", "email", "--reason", "busy", "--dry-run")
	expect(t, ExitDone, "0 jobs would be replayed\n", "", "dead", "replay", "email", "--older", "1h", "--dry-run")
	expect(t, ExitDone, "1 job replayed\n", "", "dead", "replay", "email", "421-0")
	expect(
		t, ExitRefused, "0 jobs replayed\n", "1 job not changed: 0 without room, 1 not dead", "dead", "replay", "email",
		"421-0",
	)
	expect(
		t, ExitDone, "2 jobs replayed\n", "", "dead", "replay", "email", "--reason", "busy", "--before",
		time.Now().Add(time.Minute).Format(time.RFC3339),
	)
	expect(t, ExitRefused, "", "nothing was changed", "dead", "rm", "email")
	if r := penstock(t, "email\n", "dead", "rm", "email"); r.code != ExitDone || r.out != "2 jobs deleted\n" ||
		!strings.Contains(r.err, "2 jobs dead") {
		t.Errorf("%+v", r)
	}
	expect(t, ExitDone, "0 jobs deleted\n", "", "dead", "rm", "email", "--yes")
	if i, err := store.Get(t.Context(), "email"); err != nil || i.Dead != 0 || i.Waiting != 3 || i.Replayed != 3 {
		t.Errorf("%+v, %v", i, err)
	}
	expect(t, ExitDone, "3 replayed", "", "queue", "info", "email")
	expect(t, ExitUsage, "", "ids cannot be used", "dead", "rm", "email", "a", "--reason", "b")
	expect(t, ExitUsage, "", "--before", "dead", "rm", "email", "--older", "1h", "--before", "2026-01-02T15:04:05Z")
	expect(t, ExitRefused, "", "no queue", "dead", "replay", "nobody")
}

// More than one request does.
// Dead jobs are there when their queue is not.
func TestDeadOfADeletedQueue(t *testing.T) {
	store := kept(t, 3, 2)
	expect(t, ExitDone, "email  ", "", "dead", "ls")
	expect(t, ExitDone, "5 jobs would be replayed\n", "", "dead", "replay", "email", "--newer", "1h", "--dry-run")
	expect(
		t, ExitDone, "0 jobs would be replayed\n", "", "dead", "replay", "email", "--since", "2100-01-01T00:00:00Z",
		"--dry-run",
	)
	expect(t, ExitDone, "dead ", "", "job", "get", "email", "421-0")
	if err := store.Delete(t.Context(), "email", queue.AnyRevision, true); err != nil {
		t.Fatal(err)
	}
	expect(t, ExitDone, "deleted", "", "dead", "ls")
	expect(t, ExitDone, `"gone": true`, "", "dead", "ls", "-o", "json")
	expect(t, ExitDone, "421-0", "", "dead", "ls", "email", "--newer", "1h")
	expect(t, ExitDone, "ANSWER", "", "job", "get", "email", "421-0")
	expect(t, ExitRefused, "", "no queue", "dead", "replay", "email", "421-0")
	expect(t, ExitUsage, "", "need the name of a queue", "dead", "ls", "--older", "1h")
	expect(t, ExitUsage, "", "--since", "dead", "ls", "email", "--newer", "1h", "--since", "2026-01-02T15:04:05Z")
	expect(t, ExitDone, "5 jobs deleted\n", "", "dead", "rm", "email", "--yes")
	expect(t, ExitDone, "no dead jobs\n", "", "dead", "ls")
}

func TestManyDead(t *testing.T) {
	store := kept(t, 1300, 0)
	var ids []string
	for i := range 600 {
		ids = append(ids, fmt.Sprint("421-", i))
	}
	expect(t, ExitDone, "600 jobs deleted\n", "", append([]string{"dead", "rm", "email"}, ids...)...)
	expect(t, ExitDone, "700 jobs replayed\n", "", "dead", "replay", "email")
	if r := expect(t, ExitDone, "", "", "job", "ls", "email", "--limit", "0"); strings.Count(r.out, "\n") != 701 {
		t.Errorf("%d lines", strings.Count(r.out, "\n"))
	}
	if i, err := store.Get(t.Context(), "email"); err != nil || i.Dead != 0 || i.Waiting != 700 {
		t.Errorf("%+v, %v", i, err)
	}
}

func TestReplayWithoutRoom(t *testing.T) {
	store := kept(t, 3, 0)
	if _, err := store.Put(
		t.Context(), queue.Spec{Name: "email", Rate: leaky.Unlimited, Capacity: 2}, queue.AnyRevision,
	); err != nil {
		t.Fatal(err)
	}
	expect(t, ExitRefused, "2 jobs replayed\n", "1 job not changed: 1 without room", "dead", "replay", "email")
}

func TestPurge(t *testing.T) {
	store := kept(t, 0, 0)
	var list []queue.Job
	for i := range 6 {
		j := queue.Job{Queue: "email", ID: fmt.Sprint("j", i), Payload: []byte("1"), Lane: []string{"", "x"}[i%2]}
		if i > 3 {
			j.NotBefore = time.Now().Add(time.Hour)
		}
		list = append(list, j)
	}
	if _, err := store.Append(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	if r := expect(t, ExitDone, "j1", "", "job", "ls", "email", "--lane", "x"); strings.Contains(r.out, "j0") {
		t.Errorf("listed\n%s", r.out)
	}
	expect(t, ExitDone, "DUE", "", "job", "ls", "email", "--state", "scheduled")
	expect(t, ExitDone, "no matching jobs", "", "job", "ls", "email", "--state", "leased")
	expect(t, ExitUsage, "", "--lane", "job", "ls", "email", "--state", "dead", "--lane", "x")
	expect(t, ExitUsage, "", "--state", "job", "ls", "email", "--state", "deferred")
	expect(t, ExitDone, "6 jobs would be canceled\n", "", "queue", "purge", "email", "--dry-run")
	for _, command := range [][]string{{"job", "ls"}, {"queue", "purge", "--dry-run"}} {
		near := `no jobs in lane "X"; did you mean x?`
		expect(t, ExitDone, "", near, append(command, "email", "--lane", "X")...)
		r := expect(t, ExitDone, "", "", append(command, "email", "--lane", "example")...)
		if strings.Contains(r.err, "mean") {
			t.Errorf("%v: %s", command, r.err)
		}
	}
	expect(t, ExitRefused, "", "2 jobs of queue email will be canceled", "queue", "purge", "email", "--lane", "x")
	expect(t, ExitDone, "2 jobs canceled\n", "", "queue", "purge", "email", "--lane", "x", "--yes")
	expect(t, ExitDone, "2 jobs canceled\n", "", "queue", "purge", "email", "--state", "scheduled", "--yes")
	if r := penstock(t, "email\n", "queue", "purge", "email", "-o", "json"); r.code != ExitDone ||
		!strings.Contains(r.out, `"purged": 2`) {
		t.Errorf("%+v", r)
	}
	expect(t, ExitDone, "0 jobs canceled\n", "", "queue", "purge", "email")
	expect(t, ExitUsage, "", "--state", "queue", "purge", "email", "--state", "leased")
	expect(t, ExitUsage, "", "--lane", "queue", "purge", "email", "--state", "scheduled", "--lane", "x")
	if i, err := store.Get(t.Context(), "email"); err != nil || i.Size() != 0 || i.Cancelled != 6 {
		t.Errorf("%+v, %v", i, err)
	}
}

// What may have been sent is listed and decided about.
func TestHeld(t *testing.T) {
	store := settled(t, queue.Hold, 3, 4)
	r := expect(t, ExitDone, "HELD", "", "held", "ls", "email")
	if strings.Count(r.out, "421 busy") != 3 || strings.Count(r.out, "550 no such user") != 4 {
		t.Errorf("listed\n%s", r.out)
	}
	if r := expect(
		t, ExitDone, `"id": "550-1"`, "", "job", "ls", "email", "--state", "held", "-o", "json",
	); !strings.Contains(r.out, "421-0") {
		t.Errorf("listed\n%s", r.out)
	}
	expect(t, ExitDone, "7 held", "", "queue", "info", "email")
	expect(t, ExitDone, "held", "", "job", "get", "email", "421-0")
	expect(t, ExitDone, "3 jobs would be released\n", "", "held", "release", "email", "--reason", "busy", "--dry-run")
	expect(t, ExitDone, "1 job released\n", "", "held", "release", "email", "421-0")
	expect(t, ExitDone, "1 job released\n", "", "held", "release", "email", "421-0") // it may be repeated
	expect(t, ExitDone, "1 job marked delivered\n", "", "held", "delivered", "email", "550-0", "--note", "in the log")
	expect(t, ExitRefused, "0 jobs released\n", "1 job not changed: not held", "held", "release", "email", "550-0")
	expect(t, ExitDone, "0 jobs marked dead\n", "", "held", "dead", "email", "--older", "1h", "--yes")
	expect(t, ExitRefused, "", "5 jobs held", "held", "dead", "email", "--reason", "user")
	if r := penstock(
		t, "email\n", "held", "dead", "email", "--reason", "user", "--note", "too late",
	); r.code != ExitDone || r.out != "3 jobs marked dead\n" {
		t.Errorf("%+v", r)
	}
	expect(t, ExitDone, "too late", "", "dead", "ls", "email")
	if i, err := store.Get(t.Context(), "email"); err != nil || i.Held != 2 || i.Waiting != 1 || i.Delivered != 1 ||
		i.Dead != 3 {
		t.Errorf("%+v, %v", i, err)
	}
	expect(t, ExitRefused, "", "no queue", "held", "release", "nobody", "--yes")
}
