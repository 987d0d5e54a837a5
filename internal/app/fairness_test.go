package app_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/long"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/queue"
)

// departures are the jobs that left, by the number of the engine's first grant of each:
// several drainers hand them over side by side.
type departures struct {
	drain.Handler
	mu   *sync.Mutex
	left map[string]int64
}

func (d departures) Handle(ctx context.Context, job *drain.Job, gate drain.Gate) error {
	grant, err := grantNumber(job.Fence)
	if err != nil {
		return drain.Permanent(err)
	}
	d.mu.Lock()
	if first, ok := d.left[job.ID]; !ok || grant < first {
		d.left[job.ID] = grant
	}
	d.mu.Unlock()
	return d.Handler.Handle(ctx, job, gate)
}

// grantNumber is the part of a fence that grows; there is one partition here, and one
// epoch.
func grantNumber(f queue.Fence) (int64, error) {
	_, number, _ := strings.Cut(string(f), "-")
	return strconv.ParseInt(number, 10, 64)
}

func (d departures) count() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return int64(len(d.left))
}

func (d departures) inOrder() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	ids := make([]string, 0, len(d.left))
	for id := range d.left {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b string) int { return cmp.Compare(d.left[a], d.left[b]) })
	return ids
}

// producer sends as many jobs of its kind as have left of both, and some more, a few at
// a time: together two of them send twice the outflow, however fast the machine is.
type producer struct {
	kind     string // reject or defer
	accepted []string
	states   map[string]int
	refused  int
}

func (p *producer) run(t *testing.T, base string, left func() int64, more int64, goesOn func() bool) {
	tick := time.NewTicker(50 * time.Millisecond) // the pace of the load: nothing is judged by it
	defer tick.Stop()
	for sent := int64(0); goesOn(); <-tick.C {
		var lines strings.Builder
		for end := left() + more; sent < end; sent++ {
			id := fmt.Sprintf("%s-%06d", p.kind, sent)
			fmt.Fprintf(&lines, `{"id":%q,"payload":{"id":%q},"overflow":%q}`+"\n", id, id, p.kind)
		}
		if lines.Len() > 0 {
			status, text := call(t, "POST", base+"/jobs", lines.String(), "application/x-ndjson")
			if status != 200 {
				t.Errorf("%s: %d %.300s", p.kind, status, text)
				return
			}
			p.note(t, text)
		}
	}
}

func (p *producer) note(t *testing.T, answers string) {
	for line := range strings.Lines(answers) {
		var a struct {
			ID, State, Reason string
			Status            int
		}
		switch err := json.Unmarshal([]byte(line), &a); {
		case err != nil:
			t.Errorf("%s: %v", line, err)
		case a.Status == 202:
			p.accepted = append(p.accepted, a.ID)
			p.states[a.State]++
		case a.Status == 429 && a.Reason == "full" && p.kind == "reject":
			p.refused++
		default:
			t.Errorf("%s", line)
		}
	}
}

// Twice as much comes in as goes out, for 20 s (a minute in the long form), and longer where the machine is slow. Jobs
// that may wait queue up behind what is deferred and keep their order. Jobs that may not wait have the places above the
// low-water mark. Neither kind starves.
func TestNeitherStarves(t *testing.T) {
	t.Parallel() // it mostly waits
	const capacity = 100
	segments := long.Of(4, 10)
	const spec = `{"rate":%q,"slack":"10s","capacity":%d,"overflow":"defer","deliver":{"http":{"url":%q}}}`
	d := departures{mu: &sync.Mutex{}, left: map[string]int64{}}
	p := newPlantSeen(t, fmt.Sprintf(spec, "100/s", capacity, "TARGET"),
		redistest.Patience, // or what is kept while Redis is late comes back without having been set aside
		func(h drain.Handler) drain.Handler { return departures{h, d.mu, d.left} })
	producers := []*producer{{kind: "defer", states: map[string]int{}}, {kind: "reject", states: map[string]int{}}}
	var all sync.WaitGroup
	// The first to come fill the whole queue: in ten parts of the run three times that must leave in each, or the first
	// part tells who came first, and not who had his share.
	enough := int64(3 * capacity * segments)
	until := time.Now().Add(long.Of(20*time.Second, time.Minute))
	hangs := until.Add(10 * time.Minute)
	goesOn := func() bool {
		now := time.Now()
		return now.Before(until) || d.count() < enough && now.Before(hangs)
	}
	for _, one := range producers {
		all.Go(func() { one.run(t, p.base, d.count, capacity, goesOn) })
	}
	all.Wait()
	during := d.inOrder() // afterwards only deferred ones are left
	accepted := map[string]bool{}
	for _, one := range producers {
		for _, id := range one.accepted {
			accepted[id] = true
		}
		t.Logf("%s: %d accepted (%v), %d refused", one.kind, len(one.accepted), one.states, one.refused)
	}
	if status, text := call(
		t, "PUT", p.base, fmt.Sprintf(spec, "1000/s", capacity, p.target.URL), "application/json",
	); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	p.arrived(t, accepted)
	if int64(len(during)) < enough {
		t.Fatalf("only %d left", len(during))
	}
	fairShares(t, during, segments)
	left := d.inOrder()
	for _, one := range producers {
		inTurn := slices.DeleteFunc(slices.Clone(left), func(id string) bool { return !strings.HasPrefix(id, one.kind) })
		if !slices.Equal(inTurn, one.accepted) {
			t.Errorf("%s: %d left in another order than the %d that were accepted", one.kind, len(inTurn), len(one.accepted))
		}
	}
	if may, mayNot := producers[0], producers[1]; may.states["deferred"] == 0 || mayNot.refused == 0 ||
		mayNot.states["deferred"] > 0 {
		t.Errorf("there was room all the time, or a job was deferred that may not wait")
	}
	p.addUp(t, len(accepted))
}

// fairShares looks at who had the places, one part of the run after the other.
func fairShares(t *testing.T, ids []string, segments int) {
	t.Helper()
	size := len(ids) / segments
	for s := range segments {
		part, may := ids[s*size:(s+1)*size], 0
		for _, id := range part {
			if strings.HasPrefix(id, "defer") {
				may++
			}
		}
		t.Logf("part %d: %d of %d may wait", s, may, size)
		if fair := size / 5; may < fair || size-may < fair {
			t.Errorf("in part %d of the run %d of %d places were of jobs that may wait", s, may, size)
		}
	}
}

// addUp waits until nothing is left, and checks that the states add up to what was
// accepted.
func (p *plant) addUp(t *testing.T, accepted int) {
	t.Helper()
	var q struct {
		Stats struct {
			Waiting, Scheduled, Leased, Deferred, Appended, Delivered int
			Died, Cancelled, Expired, Missing, Returned               int
			SetAside                                                  int `json:"set_aside"`
		}
	}
	await.Until(t, "nothing is left", func() bool {
		_, text := call(t, "GET", p.base, "", "")
		if err := json.Unmarshal([]byte(text), &q); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		s := q.Stats
		return s.Waiting+s.Scheduled+s.Leased+s.Deferred == 0 && s.Delivered == accepted
	})
	if s := q.Stats; s.Returned != s.SetAside || s.Appended != accepted || s.Died+s.Cancelled+s.Expired+s.Missing != 0 {
		t.Errorf("the states do not add up to %d: %+v", accepted, q)
	}
}
