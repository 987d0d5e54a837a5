package redisq

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// Most of what a small call costs is to make the functions of its script, which Redis does at every call, and the
// commands in it. Both are bounded here, because a clock is no witness on a busy machine. What few calls need belongs
// to a part that is made late (see lua/lib/parts.lua); before a bound is raised it is measured what that costs.

func TestScriptsMakeFewFunctions(t *testing.T) {
	t.Parallel()
	function := regexp.MustCompile(`\bfunction\b`)
	for call, most := range map[string]int{"append": 46, "reserve": 111, "settle": 84} {
		op := readLua("calls/" + call)
		made := len(partsOf(op)) + len(function.FindAllString(stripLua(op.text), -1))
		for _, name := range slices.Concat(base, []string{"parts"}, closure(op.needs, base)) {
			made += len(function.FindAllString(stripLua(library(name).text), -1))
		}
		if made > most {
			t.Errorf("%s makes %d functions before it does anything, must be at most %d", call, made, most)
		}
	}
}

// commandCalls are the commands of Redis' statistics, and how often each was called.
var commandCalls = regexp.MustCompile(`cmdstat_([a-z|]+):calls=(\d+)`)

// commandsOf counts the commands of the one script that do calls, and TIME with them, which its instant stands for.
func commandsOf(t *testing.T, c *redis.Client, do func()) (total int, each string) {
	t.Helper()
	c.ConfigResetStat(t.Context())
	do()
	total, each = 1, " time 1"
	for _, m := range commandCalls.FindAllStringSubmatch(c.Info(t.Context(), "commandstats").Val(), -1) {
		if m[1] != "evalsha" && m[1] != "config|resetstat" {
			n, _ := strconv.Atoi(m[2])
			total, each = total+n, each+" "+m[1]+" "+m[2]
		}
	}
	return total, each
}

func TestSmallCallsSendFewCommands(t *testing.T) {
	t.Parallel()
	at := leaky.Instant(time.Now().UnixMicro())
	ctx, c := t.Context(), redistest.New(t, redistest.Options{}).Client()
	e, err := OpenClient(ctx, c, Options{Init: true, Partitions: 1, Now: func() leaky.Instant {
		return at // or the server's memory may be looked at again
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	email := queue.Spec{Name: "email", Rate: leaky.Unlimited, Capacity: 1000}
	if _, err := e.Put(ctx, email, queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
	var appended int
	add := func(n int) {
		jobs := make([]queue.Job, n)
		for i := range jobs {
			appended++
			jobs[i] = queue.Job{Queue: "email", ID: fmt.Sprint("job-", appended)}
		}
		if _, err := e.Append(ctx, jobs); err != nil {
			t.Fatal(err)
		}
	}
	var reserved queue.Reserved
	reserve := func(n int) {
		if reserved, err = e.Reserve(ctx, queue.ReserveRequest{
			Client: queue.Client{ID: "c"}, Number: uint64(appended), Max: n,
		}); err != nil || len(reserved.Jobs) != n {
			t.Fatal(len(reserved.Jobs), err)
		}
	}
	settle := func() {
		var all []queue.Settlement
		for _, j := range reserved.Jobs {
			all = append(all, queue.Settlement{
				Lease: queue.Lease{Queue: j.Queue, ID: j.ID, Fence: j.Fence}, Verdict: queue.Deliver,
			})
		}
		if _, err := e.Settle(ctx, all); err != nil {
			t.Fatal(err)
		}
	}
	add(1) // the first looks at the server's memory, and makes the script known
	reserve(1)
	settle()
	for _, tc := range []struct {
		name string
		most int
		do   func()
	}{
		{"an append of the first job", 13, func() { add(1) }},
		{"an append of one more", 11, func() { add(1) }},
		{"an append of 28 jobs", 11, func() { add(28) }},
		{"a reserve of 30 jobs", 22, func() { reserve(30) }},
		{"a settle of 30 jobs", 72, settle},
	} {
		if sent, each := commandsOf(t, c, tc.do); sent > tc.most {
			t.Errorf("%s sends %d commands, must be at most %d:%s", tc.name, sent, tc.most, each)
		}
	}
}
