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

// jobsPage is the number of jobs on a page.
const jobsPage = 100

// jobsView is the data of the list of a queue's jobs.
type jobsView struct {
	Queue   string
	State   string
	States  []stateTab
	Gone    bool // the queue was deleted; its dead jobs remain
	Choices []field
	Filter  filter
	Jobs    []wire.Job
	Older   string // link to the next page; empty on the last page
	// All are the actions on every job that the filter selects, on all pages.
	All  []action
	Call action
}

type stateTab struct {
	Name    string
	N       int64
	URL     string
	Current bool
}

// jobStates are the states whose jobs can be listed, with the queue's count of each.
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

// filter selects jobs of a state.
type filter struct {
	Lane   *string
	Reason string
	// Older and Newer bound how long the jobs have been in the state: at least and at most.
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
	r.Title = "Jobs in " + name
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

// ends reports whether jobs in a state have a reason and the time at which they entered it.
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
				Status: 400, Title: "Invalid filter", Field: of.name,
				Detail: fmt.Sprintf("%.40q is not a duration, for example 24h or 30m", of.text),
			}
		}
		at := time.Now().Add(-span).UTC()
		*of.at = &at
	}
	return list, nil
}

// fields returns the inputs of the filter.
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
			{Name: "older", Label: "In this state for more than", Value: f.Older, Hint: "24h"},
			{Name: "newer", Label: "In this state for less than", Value: f.Newer, Hint: "1h"},
		}
	}
	return nil
}

// actions returns the actions on all jobs that the filter selects.
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
			"Purge all", "purge", "Cancels these jobs. They are not sent and do not become dead jobs.", true,
			[]string{"queue", "purge", "--state", state}, field{Name: "states:list", Value: state},
		)}
	case "held":
		return []action{
			all("Release all", "decide", "Returns these jobs to the queue. Some may be sent twice.", false,
				[]string{"held", "release"}, field{Name: "decision", Value: "release"}),
			all("Mark all as delivered", "decide", "Counts these jobs as delivered.", false,
				[]string{"held", "delivered"}, field{Name: "decision", Value: "delivered"}, note),
			all("Mark all as dead", "decide", "Turns these jobs into dead jobs. They can be replayed later.", true,
				[]string{"held", "dead"}, field{Name: "decision", Value: "dead"}, note),
		}
	case "dead":
		return []action{
			all("Replay all", "replay", "Returns these jobs to the queue, starting at their first attempt.", false,
				[]string{"dead", "replay"}),
			all("Delete all", "forget", "Deletes these jobs for good.", true, []string{"dead", "rm"}),
		}
	}
	return nil
}

// call returns the API call behind the page.
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

// jobView is the data of a job's page.
type jobView struct {
	wire.Job
	Content  content
	MaySee   bool // the user may see the payload
	Actions  []action
	RawURL   string
	Finished bool // the state is final
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

// jobActions returns the actions that a job's state allows.
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
		cancel := of("Cancel", "cancel", true, "This job will not be sent.", "job", "cancel")
		cancel.Role = "" // producers may cancel too; the API decides
		return []action{cancel}
	case queue.Held:
		return []action{
			decide("Release", "release", "Returns this job to the queue. It may be sent twice."),
			decide("Mark as delivered", "delivered", "Counts this job as delivered."),
			decide("Mark as dead", "dead", "Turns this job into a dead job. It can be replayed later."),
		}
	case queue.Dead:
		remove := of("Delete", "", true, "Deletes this job for good.", "dead", "rm")
		remove.Method, remove.Path = "DELETE", apiPath("queues", j.Queue, "jobs", j.ID)
		const confirm = "Returns this job to the queue, starting at its first attempt."
		return []action{of("Replay", "replay", false, confirm, "dead", "replay"), remove}
	}
	return nil
}
