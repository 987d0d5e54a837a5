package cli

import (
	"regexp"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/queue/invalid"
)

// inCommands says as commands what a server says as requests.
var inCommands = strings.NewReplacer(
	"PUT /v1/queues/{queue}", `"penstock queue set"`,
	"PUT /v1/rules/{rule}", `"penstock rule apply"`,
	"PUT /v1/apps/{app}", `"penstock app put"`,
	"POST /v1/tokens", `"penstock token create"`,
	"PUT /v1/subjects/{subject}", `"penstock subject put"`,
	"GET /v1/whoami", `"penstock whoami"`,
	"and GET shows which", `and "penstock rule info" shows which`,
	"GET /readyz with the role view for everything shows", `"penstock doctor" with the role view for everything shows`,
	"with ?force=true", "with --force",
)

// unknownName finds the name in the answer of a server that does not know it.
var unknownName = regexp.MustCompile(`^there is no (queue|rule) "([^"]+)"`)

// advise makes what a server refuses say what to do with this tool: which command, or which name was meant.
func (r *run) advise(p *client.Problem) {
	p.Detail = inCommands.Replace(p.Detail)
	if found := unknownName.FindStringSubmatch(p.Detail); found != nil {
		near := r.nearQueue
		if found[1] == "rule" {
			near = r.nearRule
		}
		p.Detail = found[0] + near(found[2]) + strings.TrimPrefix(p.Detail, found[0])
	}
}

// nearQueue names the queue that is meant by a name that no queue has, as DidYouMean does. Where there are many it
// looks at those that begin alike.
func (r *run) nearQueue(name string) string {
	return r.near(name, func(api *client.Client, begun string) ([]string, error) { return api.QueueNames(r.ctx, begun) })
}

// nearRule is nearQueue of rules.
func (r *run) nearRule(name string) string {
	return r.near(name, func(api *client.Client, begun string) ([]string, error) { return api.RuleNames(r.ctx, begun) })
}

// sayNearLane says which lane was meant by one in which no job waits, if one with a name like it has jobs.
func (r *run) sayNearLane(queueName string, lane *string) {
	if lane == nil || *lane == "" {
		return
	}
	api, err := r.client()
	if err != nil {
		return
	}
	t, err := api.Timetable(r.ctx, queueName, time.Minute)
	if err != nil {
		return
	}
	var lanes []string
	for i := range t.Lanes {
		lanes = append(lanes, plain(t.Lanes[i].Lane))
	}
	if near := invalid.DidYouMean(*lane, lanes); near != "" {
		r.say("no job waits in lane %s%s", clip.Quote(*lane, 80), near)
	}
}

func (r *run) near(name string, list func(*client.Client, string) ([]string, error)) string {
	api, err := r.client()
	if err != nil {
		return ""
	}
	for _, begun := range []string{"", name[:min(1, len(name))]} {
		names, err := list(api, begun)
		if err != nil {
			return ""
		}
		if near := invalid.DidYouMean(name, names); near != "" {
			return near
		}
	}
	return ""
}
