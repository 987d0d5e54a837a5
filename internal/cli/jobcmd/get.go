package jobcmd

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

type getCmd struct {
	Queue string `arg:"" help:"Name of the queue."`
	ID    string `arg:"" help:"Id of the job."`
	command.Output
}

func (c *getCmd) Run(r *command.Run, api *client.Client) error {
	j, err := api.Job(r.Ctx, c.Queue, c.ID)
	if err != nil {
		return err
	}
	return c.Print(r, j, func() string { return jobText(&j) + timeline(j.Timeline) })
}

// jobText describes a job.
func jobText(j *wire.Job) string {
	pairs := []string{"queue", j.Queue, "id", j.ID, "state", j.State.String(), "lane", j.Lane, "batch", j.Batch}
	arrived, about := "appended", ""
	if j.State == queue.Deferred {
		arrived, about = "deferred", "about "
	}
	if j.Position > 0 {
		pairs = append(pairs, "position", about+show.Int(j.Position))
	}
	if j.ETA != nil {
		about := "about "
		if j.ETA.Exact {
			about = ""
		}
		pairs = append(pairs, "departs", fmt.Sprintf(
			"%s (%sin %s)", j.ETA.At.Local().Format(time.RFC3339Nano), about, show.Duration(time.Until(j.ETA.At)),
		))
	}
	pairs = append(pairs, "why", whyText(j.Why))
	if j.Priority > 0 {
		pairs = append(pairs, "priority", show.Int(int64(j.Priority)))
	}
	pairs = append(pairs, "cost", show.Int(j.Cost), "attempts", show.Int(int64(j.Attempts)),
		arrived, show.Instant(j.AppendedAt), "expires", show.Instant(j.ExpiresAt), "due", show.Instant(j.DueAt),
		"ended", show.Instant(j.EndedAt), "reason", j.Reason)
	for _, b := range j.Bounces {
		text := fmt.Sprintf("%s: %d %s %s", b.Address, b.Code, b.Status, b.Text)
		pairs = append(pairs, "refused", strings.TrimRight(text, " "))
	}
	return command.Facts(append(pairs, content(j)...)...)
}

// maxShownPayload is how much of a payload is shown.
const maxShownPayload = 2000

// content describes the payload of a job and its headers.
func content(j *wire.Job) []string {
	if j.ContentType == "" {
		return nil
	}
	pairs := []string{"type", j.ContentType}
	for _, name := range slices.Sorted(maps.Keys(j.Headers)) {
		pairs = append(pairs, "header", name+": "+j.Headers[name])
	}
	text := string(j.Payload)
	if j.PayloadBase64 != nil {
		text = *j.PayloadBase64
		if b, err := base64.StdEncoding.DecodeString(text); err == nil && utf8.Valid(b) &&
			strings.HasPrefix(j.ContentType, "text/") {
			text = string(b)
		}
	}
	if short := clip.Text(text, maxShownPayload); len(short) < len(text) {
		text = fmt.Sprintf("%s... (%d bytes; see all with -o json)", short, len(text))
	}
	return append(pairs, "payload", text)
}

// timeline returns the attempts of a job as a table.
func timeline(list []wire.Attempt) string {
	if len(list) == 0 {
		return ""
	}
	t := command.NewTable("DEPARTED", "TOOK", "OUTCOME", "DRAINER", "ANSWER")
	for _, a := range list {
		took := ""
		if a.At != nil && a.EndedAt != nil {
			took = show.Duration(a.EndedAt.Sub(*a.At))
		}
		t.Row(show.Instant(a.At), took, fmt.Sprint(a.Outcome), a.Drainer, a.Answer)
	}
	return "\n" + t.String()
}

// whyText describes what a job waits for; empty if it does not wait.
func whyText(y *wire.Why) string {
	if y == nil {
		return ""
	}
	text := show.Text(string(y.By))
	if y.Queue != "" {
		text += " (" + show.Text(y.Queue) + ")"
	}
	if y.Until != nil {
		text += " until " + show.Instant(y.Until)
	}
	return show.Because(text+show.By(y.Who, y.ClaimedBy), y.Reason)
}
