package console

import (
	"cmp"
	"net/url"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

const (
	failuresLooked   = 5000 // dead jobs that the page counts
	failuresShown    = 100  // groups
	failuresPageSize = 500
	failuresPatience = 250 * time.Millisecond
)

// failuresView is the data of the dead jobs of a queue, grouped by reason.
type failuresView struct {
	Queue  string
	Groups []*failures
	Looked int64
	Dead   int64
	Rest   int // groups that are not shown
	Call   action
}

// failures are the dead jobs with the same reason.
type failures struct {
	Reason      string
	Jobs        int64
	Share       gauge
	First, Last time.Time // when the first and the last of them died
	List        string    // link to the jobs
	Actions     []action
}

func readFailures(r *request) (any, error) {
	name := r.PathValue("queue")
	r.Title = "Failures of " + name
	v := failuresView{Queue: name}
	list, groups := client.List{State: "dead", Limit: failuresPageSize}, map[string]*failures{}
	for begun := time.Now(); ; {
		page, err := r.api.Jobs(r.Context(), name, list)
		if err != nil {
			return nil, err
		}
		for i := range page.Jobs {
			countFailure(groups, &page.Jobs[i])
		}
		v.Looked += int64(len(page.Jobs))
		list.After = page.Next
		if page.Next == "" || v.Looked >= failuresLooked || time.Since(begun) > failuresPatience {
			break
		}
	}
	v.Dead = v.Looked
	if list.After != "" {
		dead, err := r.api.Dead(r.Context(), name)
		if err != nil {
			return nil, err
		}
		v.Dead = max(dead, v.Looked)
	}
	for _, g := range groups {
		v.Groups = append(v.Groups, g)
	}
	slices.SortFunc(v.Groups, func(a, b *failures) int {
		return cmp.Or(cmp.Compare(b.Jobs, a.Jobs), cmp.Compare(a.Reason, b.Reason))
	})
	v.Rest = max(0, len(v.Groups)-failuresShown)
	v.Groups = v.Groups[:len(v.Groups)-v.Rest]
	for _, g := range v.Groups {
		g.link(r, name, v.Looked)
	}
	v.Call = (&filter{}).call(name, "dead", client.List{})
	return v, nil
}

func countFailure(groups map[string]*failures, j *wire.Job) {
	g := groups[j.Reason]
	if g == nil {
		g = &failures{Reason: j.Reason}
		groups[j.Reason] = g
	}
	g.Jobs++
	if j.EndedAt == nil {
		return
	}
	if g.First.IsZero() {
		g.First = *j.EndedAt
	}
	g.Last = *j.EndedAt
}

// link adds the list of the jobs, and the actions on them. Jobs without a reason cannot be selected by it.
func (g *failures) link(r *request, name string, of int64) {
	g.Share = gaugeOf(g.Jobs, of, num)
	g.Share.Tone = ""
	query := url.Values{"state": {"dead"}}
	if f := (filter{Reason: g.Reason}); f.Reason != "" {
		query.Set("reason", f.Reason)
		g.Actions = f.actions(name, "dead")
	}
	g.List = r.console.path("queues", name, "jobs") + "?" + query.Encode()
}
