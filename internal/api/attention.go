package api

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/attention"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/internal/survey"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue/names"
	"github.com/penstock/penstock/queue/status"
)

// listAttention answers with a page of the problems that need a person, as of the last survey. Problems of the store
// are for callers who may see everything.
func (h *handler) listAttention(w http.ResponseWriter, r *http.Request) {
	values := r.URL.Query()
	if p := httpio.Once(values, "queue", "limit", "offset"); p != nil {
		p.Write(w)
		return
	}
	_, limit, p := httpio.Page(r)
	offset, p2 := readOffset(values.Get("offset"))
	if p == nil {
		p = p2
	}
	if p != nil {
		p.Write(w)
		return
	}
	snapshot := h.snapshot(w, r)
	if snapshot == nil {
		return
	}
	found := h.findings.of(h, snapshot)
	sees := mayView(r.Context())
	if name := values.Get("queue"); name != "" {
		sees = func(other string) bool { return other == name && may(r.Context(), auth.View, name) }
	}
	all, err := h.storeTroubles(r.Context(), found, sees)
	if err != nil {
		h.fail(w, err, "")
		return
	}
	answer := wire.Attention{AsOf: snapshot.At.UTC(), Problems: []wire.Trouble{}}
	at := 0
	add := func(v wire.Verdict, trouble func() wire.Trouble) {
		if at >= offset && len(answer.Problems) < limit {
			answer.Problems = append(answer.Problems, trouble())
		}
		at++
		if v == wire.Wrong {
			answer.Wrong++
		} else {
			answer.Warnings++
		}
	}
	for _, verdict := range []wire.Verdict{wire.Wrong, wire.Warning} {
		for _, t := range all {
			if t.Verdict == verdict {
				add(verdict, func() wire.Trouble { return t })
			}
		}
		for _, f := range found.list {
			if f.Verdict() == verdict && (sees == nil || sees(f.Queue())) {
				add(verdict, func() wire.Trouble { return shownTroubleTo(r.Context(), f) })
			}
		}
	}
	if next := offset + len(answer.Problems); next < at && len(answer.Problems) > 0 {
		answer.Next = next
	}
	h.writeJSON(w, r, http.StatusOK, answer)
}

// readOffset reads the offset of a page.
func readOffset(text string) (int, *httpio.Problem) {
	if text == "" {
		return 0, nil
	}
	offset, err := strconv.Atoi(text)
	if err != nil || offset < 0 || offset > maxOffset {
		return 0, httpio.BadField(
			"offset", httpio.Shorten(text)+" must be a whole number from 0 to "+strconv.Itoa(maxOffset),
		)
	}
	return offset, nil
}

// readyAge is how old the readiness may be in a list of problems. Reading it costs the store more than all else.
const readyAge = 15 * time.Second

// storeTroubles returns the problems of the store and its drainers. Callers who may not see everything only learn which
// of their queues no drainer asks for.
func (h *handler) storeTroubles(
	ctx context.Context, found *findings, sees func(string) bool,
) (all []wire.Trouble, err error) {
	fleet := attention.Fleet{
		Peer: "this ingress", Version: ops.Version, Undrained: found.undrained, Needed: found.needed,
		Start: "drainer --redis URL",
	}
	if sees != nil {
		fleet.Undrained = nil
		for _, name := range found.undrained {
			if sees(name) {
				fleet.Undrained = append(fleet.Undrained, name)
			}
		}
		return attention.Drainers(&fleet), nil
	}
	s, err := h.store.Get(ctx, struct{}{}, storeAge, h.readStore)
	if err != nil {
		return nil, err
	}
	fleet.Drainers = &s.Drainers
	ready, err := h.ready.Get(ctx, struct{}{}, readyAge, func(ctx context.Context) (wire.Readiness, error) {
		a, p := h.readiness(ctx)
		if p != nil { // the survey is more patient than the readiness of the server
			a = wire.Readiness{Store: "unavailable", Detail: p.Detail}
		}
		return a, nil
	})
	if err != nil {
		return nil, err
	}
	if t := attention.Store(&ready); t != nil {
		all = append(all, *t)
	}
	return append(all, attention.Drainers(&fleet)...), nil
}

// shownTroubleTo converts a problem to what the caller may see of it.
func shownTroubleTo(ctx context.Context, f attention.Finding) wire.Trouble {
	t := f.Trouble()
	if parent := f.Parent(); parent != "" && !owns(ctx, parent) {
		t.Reason, t.By = "", ""
	}
	return t
}

// maxAskers is the maximum number of queues of other groups that the answer about a rule names.
const maxAskers = 100

// findings are the problems of all queues of a snapshot.
type findings struct {
	list []attention.Finding // the worst first
	// undrained are the queues with jobs that no drainer asks for, by name.
	undrained []string
	needed    bool // a queue needs a drainer, or there is no queue
	// worst are the verdicts of the queues with problems.
	worst map[string]wire.Verdict
	// askers are the queues of other groups that use a rule, by rule, sorted by name and at most maxAskers.
	askers map[string][]string
}

// lastFindings are the findings of the last snapshot. However many callers ask, each snapshot is checked once.
type lastFindings struct {
	mu       sync.Mutex
	snapshot *survey.Snapshot
	found    *findings
}

// of returns the problems of the queues of a snapshot. The result must not be changed.
func (l *lastFindings) of(h *handler, s *survey.Snapshot) *findings {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.snapshot != s {
		l.snapshot, l.found = s, h.examine(s)
	}
	return l.found
}

func (h *handler) examine(s *survey.Snapshot) *findings {
	f := &findings{needed: s.Len() == 0, worst: map[string]wire.Verdict{}, askers: map[string][]string{}}
	for _, row := range s.Rows() {
		q := h.patient(row)
		f.needed = f.needed || !q.Pull
		found := attention.Find(&q)
		if worst := attention.Worst(found); worst != "" {
			f.list, f.worst[row.Name] = append(f.list, found...), worst
		}
		if row.Status.Code == status.NoDrainer {
			f.undrained, f.worst[row.Name] = append(f.undrained, row.Name), wire.Wrong
		}
		for _, rule := range row.Info.Spec.Rules {
			if names.Group(rule) != names.Group(row.Name) && len(f.askers[rule]) < maxAskers {
				f.askers[rule] = append(f.askers[rule], row.Name)
			}
		}
	}
	attention.Sort(f.list)
	return f
}

// patient returns what the checks need to know about a queue.
func (h *handler) patient(r *survey.Row) attention.Queue {
	i := r.Info
	q := attention.Queue{
		Name: r.Name, Status: shownStatus(&r.Status, i), Pull: i.Spec.Pull,
		Aimless: i.Group.Children == 0 && i.Spec.NeedsTarget(),
		Size:    r.Size, Deferred: r.Deferred, Capacity: i.Spec.Capacity, Waiting: i.Waiting, Held: i.Held, Dead: i.Dead,
		Refused: r.Rates.Refused, Oldest: instant(i.OldestWaiting), Rate: r.Rate,
	}
	if i.Group.Children == 0 { // a parent also loses departures that the workers of its pull children do not ask for
		q.Lost = attention.LostOf(r.Rates.Lost, r.Outflow)
	}
	for _, u := range quotas(i) {
		q.UsedUp = q.UsedUp || u.Left == 0
	}
	// The history is read only of queues that release more than 1% of their departures now.
	if back := r.Rates.Released; 100*back > back+r.Outflow {
		columns := historyQuery{window: survey.Fine, columns: []string{"released", "outflow"}}
		past := h.histories(&columns, []string{r.Name})
		if released, _ := wire.ReleasesIn(past.Queues[r.Name], past.Step, "15m"); released.Many() {
			q.Released = attention.ReleasedOf(released.Text(), i.Spec.EffectiveSlack(), i.Spec.Lease.D())
		}
	}
	return q
}
