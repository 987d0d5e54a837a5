package command

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/queue/invalid"
)

// commandFor replaces the API requests that errors of a server recommend by the equivalent commands.
var commandFor = strings.NewReplacer(
	"POST /v1/tokens", `"penstock token create"`,
	"GET /v1/whoami", `"penstock whoami"`,
	"GET lists them", `"penstock rule info" lists them`,
	"GET /readyz with the role view for everything shows", `"penstock doctor" with the role view for everything shows`,
	"with ?force=true", "with --force",
)

// creates matches the request that creates an object, and commandsOf has the command for each kind of object.
var (
	creates    = regexp.MustCompile(`PUT /v1/(queues|rules|apps|subjects)/\S+ creates it`)
	commandsOf = map[string]string{
		"queues": "queue set", "rules": "rule apply", "apps": "app put", "subjects": "subject put",
	}
)

// inCommands returns the detail of a problem with commands in place of requests.
func inCommands(detail string) string {
	detail = creates.ReplaceAllStringFunc(detail, func(request string) string {
		return `"penstock ` + commandsOf[creates.FindStringSubmatch(request)[1]] + `" creates it`
	})
	return commandFor.Replace(detail)
}

// unknownName matches the error of a server about an unknown name.
var unknownName = regexp.MustCompile(`^there is no (queue|rule) "([^"]+)"`)

// Advise adds to an error of a server how to fix it with this tool.
func (r *Run) Advise(err error) error {
	var p *client.Problem
	if !errors.As(err, &p) {
		return err
	}
	if p.Status == http.StatusUnauthorized {
		p.Detail, _, _ = strings.Cut(p.Detail, ": send Authorization") // a hint for other clients
		return fmt.Errorf("%w; save a token with \"penstock login --server %s\", or use %s or --token-file; \"penstock up\" "+
			"writes its token to admin.token in its --data; with Redis, \"penstock token init\" creates the first token",
			err, r.ServerURL(), EnvToken)
	}
	p.Detail = inCommands(p.Detail)
	if found := unknownName.FindStringSubmatch(p.Detail); found != nil {
		near := r.NearQueue
		if found[1] == "rule" {
			near = r.nearRule
		}
		p.Detail = found[0] + near(found[2]) + strings.TrimPrefix(p.Detail, found[0])
	}
	return err
}

// NearQueue returns a hint at the queue whose name is most like an unknown name, as invalid.DidYouMean formats it.
func (r *Run) NearQueue(name string) string {
	return r.near(name, func(api *client.Client, prefix string) ([]string, error) { return api.QueueNames(r.Ctx, prefix) })
}

func (r *Run) nearRule(name string) string {
	return r.near(name, func(api *client.Client, prefix string) ([]string, error) { return api.RuleNames(r.Ctx, prefix) })
}

// near looks among the first names, and then among names with the same first letter.
func (r *Run) near(name string, list func(*client.Client, string) ([]string, error)) string {
	api, err := r.Client()
	if err != nil {
		return ""
	}
	for _, prefix := range []string{"", name[:min(1, len(name))]} {
		names, err := list(api, prefix)
		if err != nil {
			return ""
		}
		if near := invalid.DidYouMean(name, names); near != "" {
			return near
		}
	}
	return ""
}

// SayNearLane hints at a lane with jobs if its key is similar to the key of the given lane, which has none.
func (r *Run) SayNearLane(queueName string, lane *string) {
	if lane == nil || *lane == "" {
		return
	}
	api, err := r.Client()
	if err != nil {
		return
	}
	t, err := api.Timetable(r.Ctx, queueName, time.Minute)
	if err != nil {
		return
	}
	var lanes []string
	for i := range t.Lanes {
		lanes = append(lanes, t.Lanes[i].Lane)
	}
	if near := invalid.DidYouMean(*lane, lanes); near != "" {
		r.Say("no jobs in lane %s%s", clip.Quote(*lane, 80), near)
	}
}
