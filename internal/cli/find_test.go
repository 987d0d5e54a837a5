package cli

import (
	"testing"

	"github.com/penstock/penstock/queue"
)

func TestFindJobs(t *testing.T) {
	url, store := ingressAndStore(t)
	t.Setenv("PENSTOCK_URL", url)
	for _, name := range []string{"email", "sms"} {
		expect(t, ExitDone, "created", "", "queue", "set", name, "rate=1/h")
		for _, id := range []string{"welcome-1", "welcome-2"} {
			j := queue.Job{Queue: name, ID: id, Lane: name + ".example", Payload: []byte("1")}
			if a, err := store.Append(t.Context(), []queue.Job{j}); err != nil || a[0].Outcome != queue.Accepted {
				t.Fatal(a, err)
			}
		}
	}
	expect(t, ExitDone, "welcome-1", "", "job", "find", "welcome-1")
	expect(t, ExitDone, "no matching jobs\n", "", "job", "find", "welcome-")
	expect(t, ExitDone, "sms.example", "", "job", "find", "--prefix", "welcome-", "--lane", "sms.example")
	expect(t, ExitDone, "welcome-", "there may be more; find all with --limit 0",
		"job", "find", "--prefix", "welcome-", "--limit", "1")
	expect(t, ExitDone, "[]\n", "", "job", "find", "nobody", "-o", "json")
	expect(t, ExitUsage, "", "give the id of a job or --lane", "job", "find")
	expect(t, ExitUsage, "", "--prefix needs the beginning of an id", "job", "find", "--prefix")
	expect(t, ExitUsage, "", "--limit -1", "job", "find", "a", "--limit=-1")
}
