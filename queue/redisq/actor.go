package redisq

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/penstock/penstock/queue/audit"
)

// actorArg returns an actor as scripts take it: name and note, a line each, which the change log keeps, and then the
// whole Actor as JSON.
func actorArg(ctx context.Context) (string, error) {
	a, err := audit.ActorOf(ctx)
	if err != nil {
		return "", err
	}
	return actorText(&a)
}

func actorText(a *audit.Actor) (string, error) {
	text, err := json.Marshal(a)
	return whoText(a.Name, a.Note) + "\n" + string(text), err
}

// whoText returns a name and a note as scripts keep them. Neither has a line feed: see audit.Actor.Validate.
func whoText(name, note string) string { return name + "\n" + note }

// who splits what whoText returned.
func who(text string) (name, note string) {
	name, note, _ = strings.Cut(text, "\n")
	return name, note
}
