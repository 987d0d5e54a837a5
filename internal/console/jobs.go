package console

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

// jobsPage is how many jobs a page has.
const jobsPage = 100

// jobsView is what the list of a queue's jobs shows.
type jobsView struct {
	Queue  string
	State  string
	States []stateTab
	// Gone is whether the queue was deleted; its dead jobs are kept.
	Gone    bool
	Choices []field
	Filter  filter
	Jobs    []wire.Job
	Older   string // where the list goes on; empty if it does not
	// All acts on every job that is chosen, on this page and beyond.
	All  []action
	Call action
}

type stateTab struct {
	Name    string
	N       int64
	URL     string
	Current bool
}

// jobStates are those of jobs that can be listed, with what a queue counts of each.
var jobStates = []struct {
	name  string
	count func(*wire.Stats) int64
}{
	{"waiting", func(s *wire.Stats) int64 { return s.Waiting }},
	{"scheduled", func(s *wire.Stats) int64 { return s.Scheduled }},
	{"leased", func(s *wire.Stats) int64 { return s.Leased }},
	{"held", func(s *wire.Stats) int64 { return s.HeldJobs }},
	{"dead", func(s *wire.Stats) int64 { return s.Dead }},
}

// filter is which jobs of a state are chosen.
type filter struct {
	Lane   *string
	Reason string
	// Older and Newer are for how long they have been dead or held, at least and at most.
	Older, Newer string
}

func readJobs(r *request) (any, error) {
	name, asked := r.PathValue("queue"), r.URL.Query()
	if id := strings.TrimSpace(asked.Get("id")); id != "" {
		return nil, goTo(r.console.path("queues", name, "jobs", id))
	}
	v := jobsView{Queue: name, State: asked.Get("state")}
	if v.State == "" {
		v.State = jobStates[0].name
	}
	r.Title = "Jobs of " + name
	q, err := r.api.Queue(r.Context(), name)
	if p := (*client.Problem)(nil); errors.As(err, &p) && p.Reason == "unknown_queue" && v.State == "dead" {
		v.Gone, q.Flow = true, new(wire.Flow)
		q.Stats.Dead, err = r.api.Dead(r.Context(), name)
	}
	if err != nil {
		return nil, err
	}
	for _, s := range jobStates {
		tab := stateTab{Name: s.name, URL: "?state=" + s.name, Current: s.name == v.State}
		if q.Flow != nil {
			tab.N = s.count(&q.Stats)
		}
		v.States = append(v.States, tab)
	}
	list, err := v.Filter.read(v.State, asked)
	if err != nil {
		return nil, err
	}
	list.After = asked.Get("after")
	page, err := r.api.Jobs(r.Context(), name, list)
	if err != nil {
		return nil, err
	}
	v.Jobs = page.Jobs
	if page.Next != "" {
		asked.Set("after", page.Next)
		v.Older = r.console.path("queues", name, "jobs") + "?" + asked.Encode()
	}
	v.Choices = v.Filter.fields(v.State)
	v.All = v.Filter.actions(name, v.State)
	v.Call = v.Filter.call(name, v.State, list)
	return v, nil
}

// ends reports whether a state is one in which jobs have a reason and an instant from which they are in it.
func ends(state string) bool { return state == "dead" || state == "held" }

func (f *filter) read(state string, asked url.Values) (client.List, error) {
	list := client.List{State: state, Limit: jobsPage}
	if state == "waiting" && asked.Get("lane") != "" {
		lane := asked.Get("lane")
		f.Lane, list.Lane = &lane, &lane
	}
	if !ends(state) {
		return list, nil
	}
	f.Reason, f.Older, f.Newer = asked.Get("reason"), asked.Get("older"), asked.Get("newer")
	list.Reason = f.Reason
	for _, of := range []struct {
		name, text string
		at         **time.Time
	}{{"older", f.Older, &list.Before}, {"newer", f.Newer, &list.Since}} {
		if of.text == "" {
			continue
		}
		span, err := time.ParseDuration(of.text)
		if err != nil || span < 0 {
			return list, &client.Problem{
				Status: 400, Title: "This cannot be asked for.", Field: of.name,
				Detail: fmt.Sprintf("%.40q is no duration such as 24h or 30m", of.text),
			}
		}
		at := time.Now().Add(-span).UTC()
		*of.at = &at
	}
	return list, nil
}

// fields ask for the filter of a state.
func (f *filter) fields(state string) []field {
	switch {
	case state == "waiting":
		lane := ""
		if f.Lane != nil {
			lane = *f.Lane
		}
		return []field{{Name: "lane", Label: "Lane", Value: lane, Hint: "any"}}
	case ends(state):
		return []field{
			{Name: "reason", Label: "Reason contains", Value: f.Reason},
			{Name: "older", Label: state + " for longer than", Value: f.Older, Hint: "24h"},
			{Name: "newer", Label: state + " for less than", Value: f.Newer, Hint: "1h"},
		}
	}
	return nil
}

// actions are what can be done with all jobs of a filter.
func (f *filter) actions(name, state string) []action {
	var chosen []field
	flags := []string{}
	if f.Lane != nil {
		chosen, flags = append(chosen, field{Name: "lane", Value: *f.Lane}), append(flags, "--lane", *f.Lane)
	}
	if f.Reason != "" {
		chosen, flags = append(chosen, field{Name: "reason", Value: f.Reason}), append(flags, "--reason", f.Reason)
	}
	for _, of := range []struct{ name, flag, text string }{{"before", "--older", f.Older}, {"since", "--newer", f.Newer}} {
		if span, err := time.ParseDuration(of.text); err == nil {
			at := time.Now().Add(-span).UTC().Format(time.RFC3339Nano)
			chosen, flags = append(chosen, field{Name: of.name, Value: at}), append(flags, of.flag, of.text)
		}
	}
	all := func(label, operation, confirm string, danger bool, words []string, fields ...field) action {
		return action{
			Label: label, Method: "POST", Path: apiPath("queues", name, operation), Fields: append(fields, chosen...),
			Role: auth.Operate, Bulk: true, Danger: danger, Confirm: confirm,
			Command: append(append(words, name), flags...),
		}
	}
	note := field{Name: "note", Label: "Note", Hint: "why"}
	switch state {
	case "waiting", "scheduled":
		return []action{all(
			"Take all back", "purge", "They do not leave any more, and are not dead jobs: they are gone.", true,
			[]string{"queue", "purge", "--state", state}, field{Name: "states:list", Value: state},
		)}
	case "held":
		return []action{
			all("Release all", "decide", "They wait again, and may be sent twice.", false,
				[]string{"held", "release"}, field{Name: "decision", Value: "release"}),
			all("All were sent", "decide", "They are counted as delivered.", false,
				[]string{"held", "delivered"}, field{Name: "decision", Value: "delivered"}, note),
			all("Give all up", "decide", "They are dead jobs then, and can be replayed.", true,
				[]string{"held", "dead"}, field{Name: "decision", Value: "dead"}, note),
		}
	case "dead":
		return []action{
			all("Replay all", "replay", "They wait in the queue again, from their first attempt.", false,
				[]string{"dead", "replay"}),
			all("Forget all", "forget", "They are gone for good.", true, []string{"dead", "rm"}),
		}
	}
	return nil
}

// call is what the page asks of the API.
func (f *filter) call(name, state string, list client.List) action {
	query := url.Values{"state": {state}}
	words := []string{"job", "ls", name, "--state", state}
	if ends(state) {
		words = []string{state, "ls", name}
	}
	if list.Lane != nil {
		query.Set("lane", *list.Lane)
		words = append(words, "--lane", *list.Lane)
	}
	if f.Reason != "" {
		query.Set("reason", f.Reason)
		words = append(words, "--reason", f.Reason)
	}
	for _, of := range []struct {
		name, flag, text string
		at               *time.Time
	}{{"before", "--older", f.Older, list.Before}, {"since", "--newer", f.Newer, list.Since}} {
		if of.at != nil {
			query.Set(of.name, of.at.Format(time.RFC3339Nano))
			words = append(words, of.flag, of.text)
		}
	}
	return action{Method: "GET", Path: apiPath("queues", name, "jobs") + "?" + query.Encode(), Command: words}
}

// jobView is what the page of a job shows.
type jobView struct {
	wire.Job
	Content  content
	MaySee   bool // what it carries
	Actions  []action
	RawURL   string
	Finished bool // nothing more becomes of it
}

func readJob(r *request) (any, error) {
	name, id := r.PathValue("queue"), r.PathValue("id")
	r.Title = "Job " + id
	j, err := r.api.Job(r.Context(), name, id)
	if err != nil {
		return nil, err
	}
	return jobView{
		Job: j, Content: contentOf(&j), MaySee: mayDo(r.who, auth.Payloads, apiPath("queues", name)), Actions: jobActions(&j),
		RawURL:   r.console.path("api", "v1", "queues", name, "jobs", id),
		Finished: j.State == queue.Delivered || j.State == queue.Cancelled || j.State == queue.Expired,
	}, nil
}

// jobActions are what can be done with a job where it is.
func jobActions(j *wire.Job) []action {
	of := func(label, operation string, danger bool, confirm string, words ...string) action {
		return action{
			Label: label, Method: "POST", Path: apiPath("queues", j.Queue, "jobs", j.ID, operation), Role: auth.Operate,
			Danger: danger, Confirm: confirm, Command: append(words, j.Queue, j.ID),
		}
	}
	decide := func(label, decision, confirm string) action {
		a := of(label, "decide", decision == "dead", confirm, "held", decision)
		a.Fields = []field{{Name: "decision", Value: decision}}
		if decision != "release" {
			a.Fields = append(a.Fields, field{Name: "note", Label: "Note", Hint: "why"})
		}
		return a
	}
	switch j.State {
	case queue.Waiting, queue.Scheduled, queue.Deferred:
		cancel := of("Cancel", "cancel", true, "It does not leave any more.", "job", "cancel")
		cancel.Role = "" // who may append may cancel; the API says who
		return []action{cancel}
	case queue.Held:
		return []action{
			decide("Release", "release", "It waits again, and may be sent twice."),
			decide("It was sent", "delivered", "It is counted as delivered."),
			decide("Give it up", "dead", "It is a dead job then, and can be replayed."),
		}
	case queue.Dead:
		forget := of("Forget", "", true, "It is gone for good.", "dead", "rm")
		forget.Method, forget.Path = "DELETE", apiPath("queues", j.Queue, "jobs", j.ID)
		replay := of("Replay", "replay", false, "It waits in the queue again, from its first attempt.", "dead", "replay")
		return []action{replay, forget}
	}
	return nil
}
